//! Policies as people write them: read or refused, and what is read can be written and read again.

use arbitrary::Unstructured;
use serde_json::Value;
use stepwell_core::contract::RetryFields;
use stepwell_core::json::Json;
use stepwell_core::policy::retry::{RetryPolicy, parse_fields};

use crate::entries;

/// The input as a policy's text, and as fields of one.
pub fn policy(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        json(text);
    }
    if let Ok(value) = serde_json::from_slice::<Value>(data) {
        read(&value);
    }
    let mut u = Unstructured::new(data);
    while !u.is_empty()
        && let Ok(fields) = entries::policy_fields(&mut u)
    {
        let written = serde_json::to_value(fields).unwrap_or_else(|error| panic!("{fields:?}: {error}"));
        assert_eq!(parse_fields(&written), Ok(fields), "{written}");
        let Ok(other) = entries::json(&mut u) else { return };
        // One field replaced by any value at all.
        let names = ["maxAttempts", "initialMs", "maxMs", "multiplier", "jitter", "retries"];
        let (Ok(name), Some(value)) = (u.choose(&names), other.to_value()) else { continue };
        let mut changed = written.clone();
        changed[*name] = value;
        read(&changed);
    }
}

fn read(value: &Value) {
    match parse_fields(value) {
        Ok(fields) => {
            assert!(RetryPolicy::default().overridden(&fields).is_ok(), "{value}");
            let again: RetryFields = parse_fields(&serde_json::to_value(fields).unwrap_or_default())
                .unwrap_or_else(|error| panic!("{value}, written again: {error}"));
            assert_eq!(again, fields, "{value}");
        }
        Err(refused) => assert!(!refused.field.is_empty() && !refused.to_string().is_empty()),
    }
}

/// A value of a workflow's, from the same texts.
fn json(text: &str) {
    let Ok(value) = Json::parse(text) else { return };
    let again = Json::parse(value.as_str()).unwrap_or_else(|error| panic!("{value}: {error}"));
    assert_eq!(again, value);
    assert!(value.same_value(&again));
    // Whatever was taken can be read by any reader, unless it is nested too deeply for this one or a number of it is too large.
    let deep = value.as_str().matches(['[', '{']).count() > 120;
    let huge = value.as_str().contains(['e', 'E']);
    assert!(value.to_value().is_some() || deep || huge, "{value}");
}
