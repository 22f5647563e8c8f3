//! What a run does to others, and what comes back of it. It is in the commit of the entry that says so; whom it concerns is told once
//! that is durable. What nobody is told of, since the process died, is found by the next one: it is in an inbox.

use stepwell_core::error::{Code, Error};
use stepwell_core::ids::RunId;
use stepwell_core::journal::entry::Reply;
use stepwell_core::json::Json;
use stepwell_core::run::{Errand, Input};
use stepwell_store::{Errand as Stored, InboxEvent, Reply as Replied, Ticket};

use super::{Driver, Message};
use crate::engine::Engine;

impl Driver {
    /// Puts it into the commit that has what the machine has said so far.
    pub(super) fn errand(&mut self, errand: Errand) {
        match errand {
            Errand::Send { op, to, name, payload } => {
                self.others.push(to.clone());
                self.writing.errand(Stored::Send { op, to, name, payload: payload.to_string() });
            }
            other => tracing::error!(run = self.key, ?other, "nobody knows how this is done"),
        }
    }

    /// Tells whom it concerns, this run too, once what was done is durable.
    pub(super) fn tell_others(&mut self, ticket: Ticket) {
        if self.others.is_empty() {
            return;
        }
        let others = std::mem::take(&mut self.others);
        let (engine, own, sender) = (self.engine.clone(), self.key, self.sender.clone());
        tokio::spawn(async move {
            match engine.store().durable(ticket).await {
                Ok(()) => {
                    engine.message(own, Message::Inbox);
                    others.iter().for_each(|run| engine.notice(run));
                }
                // A run that is gone goes on from its journal anyway.
                Err(error) => drop(sender.send(Message::StoreFailed(error))),
            }
        });
    }
}

impl Engine {
    /// Something has come to the inbox of the run of that name, or of the one that goes on for it.
    pub(crate) fn notice(&self, run: &RunId) {
        let mut next = Some(run.clone());
        while let Some(run) = next.take() {
            match self.store().read().run(&run) {
                Ok(Some(row)) if row.links.continued_as.is_some() => next = row.links.continued_as,
                Ok(Some(row)) => self.notice_inbox(&row),
                Ok(None) => {}
                // It is in its inbox all the same, and is seen when the run is taken up next.
                Err(error) => tracing::error!(%run, %error, "a run could not be told that something has come for it"),
            }
        }
    }
}

/// What came to the inbox, as the machine is told it.
pub(super) fn input(event: InboxEvent) -> Result<Input, String> {
    let InboxEvent { number: id, name, payload, reply_to } = event;
    let payload = Json::parse(&payload).map_err(|error| error.to_string())?;
    Ok(match reply_to {
        None => Input::Event { id, name, payload },
        Some(op) => {
            let reply = Replied::of(&name).ok_or_else(|| format!("{name:?} is no reply of this version"))?;
            Input::Reply { id, op, reply: replied(reply, payload) }
        }
    })
}

/// What the workflow is told.
fn replied(reply: Replied, payload: Json) -> Reply {
    let failed = |code, text: String| Reply::Failed(Error::new(code, text).never_retried());
    match reply {
        Replied::Done => Reply::Succeeded(payload),
        Replied::NoSuchRun => failed(Code::RunNotFound, format!("there is no run {}", text_of(&payload))),
        Replied::Finished => {
            failed(Code::RunEnded, format!("the run has {}, and takes no event any more", text_of(&payload)))
        }
        other => failed(Code::Internal, format!("nobody knows the reply {other:?}")),
    }
}

/// A text that is JSON.
fn text_of(json: &Json) -> String {
    match json.to_value() {
        Some(serde_json::Value::String(text)) => text,
        _ => json.to_string(),
    }
}
