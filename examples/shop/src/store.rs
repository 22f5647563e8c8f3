//! What the shop has done, and whether a request does something new: the decision by `Idempotency-Key`.
//!
//! Pure. Like most real services it deduplicates by key alone: the same operation under a second key is done a second time,
//! and the record shows it.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::http::Answer;

/// What can be asked of the shop: path, the ids' prefix, the state that the operation is in afterwards.
const KINDS: [(&str, &str, &str); 4] = [
    ("/reservations", "res", "reserved"),
    ("/charges", "ch", "captured"),
    ("/labels", "lbl", "printed"),
    ("/emails", "em", "queued"),
];

/// An operation that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) path: &'static str,
    pub(crate) order_id: String,
    pub(crate) key: String,
}

/// A key that is taken by a request in progress. Either `finish` or `abandon` ends it.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) key: String,
    request: (&'static str, Vec<u8>),
    order_id: String,
    fields: Map<String, Value>,
    prefix: &'static str,
    state: &'static str,
}

/// What a request comes to.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It is new: do it.
    Begin(Claim),
    /// It was done before.
    Replay(Answer),
    /// It is not done, and leaves its key as it was.
    Refuse(Answer),
}

enum Slot {
    InProgress { request: (&'static str, Vec<u8>) },
    Stored { request: (&'static str, Vec<u8>), answer: Answer },
}

/// The shop's memory.
#[derive(Default)]
pub(crate) struct Store {
    keys: HashMap<String, Slot>,
    operations: Vec<Operation>,
}

/// The order that a body is about.
pub(crate) fn order_id(body: &[u8]) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_slice(body).ok()?;
    fields.get("orderId")?.as_str().map(str::to_owned)
}

impl Store {
    /// Decides a POST. Another body under a known key is refused before anything else is looked at.
    pub(crate) fn begin(&mut self, path: &str, key: Option<&str>, body: &[u8]) -> Decision {
        let Some(&(path, prefix, state)) = KINDS.iter().find(|kind| kind.0 == path) else {
            return Decision::Refuse(Answer::refusal(404, "there is no such thing here"));
        };
        let Some(key) = key.filter(|key| !key.is_empty()) else {
            return Decision::Refuse(Answer::refusal(400, "an Idempotency-Key is needed"));
        };
        let request = (path, body.to_vec());
        match self.keys.get(key) {
            Some(Slot::InProgress { request: first } | Slot::Stored { request: first, .. }) if *first != request => {
                return Decision::Refuse(Answer::refusal(422, "this Idempotency-Key was used for another request"));
            }
            Some(Slot::InProgress { .. }) => {
                return Decision::Refuse(Answer::refusal(409, "a request with this Idempotency-Key is in progress"));
            }
            Some(Slot::Stored { answer, .. }) => {
                return Decision::Replay(Answer { replayed: true, ..answer.clone() });
            }
            None => {}
        }
        let Ok(fields) = serde_json::from_slice::<Map<String, Value>>(body) else {
            return Decision::Refuse(Answer::refusal(400, "the body is no JSON object"));
        };
        let order_id = match fields.get("orderId").and_then(Value::as_str) {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => return Decision::Refuse(Answer::refusal(400, "the body has no `orderId`")),
        };
        self.keys.insert(key.to_owned(), Slot::InProgress { request: request.clone() });
        Decision::Begin(Claim { key: key.to_owned(), request, order_id, fields, prefix, state })
    }

    /// Does the operation. Its id follows from the order; a second one for the same order gets a number, as it would be a second
    /// charge on somebody's card.
    pub(crate) fn finish(&mut self, claim: Claim) -> Answer {
        let Claim { key, request, order_id, mut fields, prefix, state } = claim;
        let path = request.0;
        let before = self.operations.iter().filter(|done| done.path == path && done.order_id == order_id).count();
        let id = match before {
            0 => format!("{prefix}_{order_id}"),
            n => format!("{prefix}_{order_id}_{}", n + 1),
        };
        fields.insert("id".to_owned(), id.clone().into());
        fields.insert("status".to_owned(), state.into());
        let answer = Answer::new(201, Value::Object(fields));
        self.operations.push(Operation { id, path, order_id, key: key.clone() });
        self.keys.insert(key, Slot::Stored { request, answer: answer.clone() });
        answer
    }

    /// Nothing was done: the key is free again.
    pub(crate) fn abandon(&mut self, claim: &Claim) {
        self.keys.remove(&claim.key);
    }

    /// Everything done, in order.
    pub(crate) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Everything done for an order, or 404.
    pub(crate) fn order(&self, id: &str) -> Answer {
        let done: Vec<_> = self.operations.iter().filter(|operation| operation.order_id == id).collect();
        if done.is_empty() {
            return Answer::refusal(404, "nothing was done for this order");
        }
        Answer::new(200, serde_json::json!({ "orderId": id, "operations": done }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"orderId":"o1","amountCents":5}"#;

    fn begin(store: &mut Store, key: &str, body: &[u8]) -> Claim {
        match store.begin("/charges", Some(key), body) {
            Decision::Begin(claim) => claim,
            other => panic!("{other:?}"),
        }
    }

    fn refused(store: &mut Store, path: &str, key: Option<&str>, body: &[u8]) -> u16 {
        match store.begin(path, key, body) {
            Decision::Refuse(answer) => answer.status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_repeated_key_is_answered_from_the_record() {
        let mut store = Store::default();
        let claim = begin(&mut store, "k", BODY);
        let first = store.finish(claim);
        assert_eq!((first.status, first.replayed, &first.body["id"]), (201, false, &"ch_o1".into()));
        match store.begin("/charges", Some("k"), BODY) {
            Decision::Replay(again) => assert_eq!(again, Answer { replayed: true, ..first }),
            other => panic!("{other:?}"),
        }
        assert_eq!(store.operations().len(), 1);
    }

    #[test]
    fn another_request_under_a_key_is_422_also_while_the_first_is_in_progress() {
        let mut store = Store::default();
        let claim = begin(&mut store, "k", BODY);
        assert_eq!(refused(&mut store, "/charges", Some("k"), BODY), 409);
        assert_eq!(refused(&mut store, "/charges", Some("k"), b"{}"), 422);
        assert_eq!(refused(&mut store, "/labels", Some("k"), BODY), 422);
        store.finish(claim);
        assert_eq!(refused(&mut store, "/charges", Some("k"), b"{}"), 422);
    }

    #[test]
    fn a_refused_or_abandoned_request_leaves_its_key_unused() {
        let mut store = Store::default();
        assert_eq!(refused(&mut store, "/charges", Some("k"), b"[]"), 400);
        assert_eq!(refused(&mut store, "/charges", Some("k"), b"{\"orderId\":\"\"}"), 400);
        let claim = begin(&mut store, "k", BODY);
        store.abandon(&claim);
        begin(&mut store, "k", br#"{"orderId":"o2"}"#);
        assert!(store.operations().is_empty());
    }

    #[test]
    fn without_a_key_or_a_known_path_nothing_is_done() {
        let mut store = Store::default();
        assert_eq!(refused(&mut store, "/charges", None, BODY), 400);
        assert_eq!(refused(&mut store, "/charges", Some(""), BODY), 400);
        assert_eq!(refused(&mut store, "/refunds", Some("k"), BODY), 404);
    }

    #[test]
    fn a_second_key_for_the_same_operation_is_a_second_operation() {
        let mut store = Store::default();
        for (key, id) in [("k", "ch_o1"), ("l", "ch_o1_2")] {
            let claim = begin(&mut store, key, BODY);
            assert_eq!(store.finish(claim).body["id"], id);
        }
        assert_eq!(store.order("o1").body["operations"].as_array().unwrap().len(), 2);
        assert_eq!(store.order("o2").status, 404);
    }
}
