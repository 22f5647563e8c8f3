//! The shared vectors in `tests/vectors`, read as JSON.

use serde_json::Value;

/// The file of that name.
pub(crate) fn read(name: &str) -> Value {
    let path = format!("{}/tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The list under `key`, which must not be empty.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let list = value[key].as_array().unwrap_or_else(|| panic!("no list {key:?}"));
    assert!(!list.is_empty(), "{key:?} is empty");
    list
}
