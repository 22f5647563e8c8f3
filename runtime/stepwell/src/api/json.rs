//! JSON that a client sends, read no more leniently than it is described: an object is no list of its members' values, a name stands in
//! it once, and what is wrong is said with the member that it is in.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The object that the text is.
///
/// # Errors
/// What is wrong with it, where, in words.
pub(super) fn object<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    read(text).map_err(|(member, error)| with_member(&member, &error.to_string()))
}

/// The same of a text that is a part of another: where in a line it is wrong would mislead.
pub(super) fn part<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    read(text).map_err(|(member, error)| {
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        with_member(&member, text.strip_suffix(&place).unwrap_or(&text))
    })
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, (String, serde_json::Error)> {
    // Whatever reads an object by its names takes a list by its order.
    if text.trim_start().starts_with('[') {
        return Err((".".to_owned(), serde_json::Error::custom("it is a list, and not an object")));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| (error.path().to_string(), error.into_inner()))?;
    reader.end().map_err(|error| (".".to_owned(), error))?;
    Ok(value)
}

fn with_member(member: &str, error: &str) -> String {
    if member == "." { error.to_owned() } else { format!("{member}: {error}") }
}

/// A member that is an object, or is not there.
pub(super) fn optional<'de, D, T>(reader: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let raw = Option::<Box<RawValue>>::deserialize(reader)?;
    raw.map(|raw| part(raw.get())).transpose().map_err(D::Error::custom)
}

/// An object of any names, each of which stands in it once.
#[derive(Debug)]
pub(super) struct Members<V>(pub(super) BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Members<V> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_map(Distinct(PhantomData))
    }
}

struct Distinct<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Distinct<V> {
    type Value = Members<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<V>, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, V>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the member {name:?} is given twice")));
            }
            members.insert(name, value);
        }
        Ok(Members(members))
    }
}

/// Marks of a run.
pub(super) fn tags<'de, D: Deserializer<'de>>(reader: D) -> Result<BTreeMap<String, String>, D::Error> {
    Members::deserialize(reader).map(|members| members.0)
}

/// The same, or none named.
pub(super) fn optional_tags<'de, D>(reader: D) -> Result<Option<BTreeMap<String, String>>, D::Error>
where
    D: Deserializer<'de>,
{
    Option::<Members<String>>::deserialize(reader).map(|members| members.map(|members| members.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[serde(default)]
        n: u64,
        #[serde(default, deserialize_with = "optional")]
        inner: Option<Inner>,
        #[serde(default, deserialize_with = "tags")]
        tags: BTreeMap<String, String>,
        raw: Option<Box<RawValue>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        n: u64,
    }

    fn wrong(text: &str) -> String {
        object::<Outer>(text).expect_err(text)
    }

    #[test]
    fn an_object_is_no_list_and_no_name_stands_in_it_twice() {
        assert!(wrong("[1]").contains("list"), "{}", wrong("[1]"));
        assert!(wrong(" \n[1]").contains("list"));
        assert!(wrong(r#"{"inner":[1]}"#).contains("inner: it is a list"), "{}", wrong(r#"{"inner":[1]}"#));
        assert!(wrong(r#"{"n":1,"n":1}"#).contains("duplicate field `n`"));
        assert!(wrong(r#"{"tags":{"a":"b","a":"b"}}"#).contains(r#"the member "a" is given twice"#));
        assert!(wrong("{} {}").contains("trailing"));
    }

    #[test]
    fn the_member_that_is_wrong_is_named() {
        for (text, said) in [
            (r#"{"n":"1"}"#, "n: invalid type: string"),
            (r#"{"n":1e400}"#, "number out of range"),
            (r#"{"n":-0}"#, "n: invalid type"),
            (r#"{"n":18446744073709551616}"#, "n: invalid type"),
            (r#"{"m":1}"#, "unknown field `m`"),
            (r#"{"inner":{"n":true}}"#, "inner: n: invalid type: boolean"),
            (r#"{"inner":{"m":1}}"#, "unknown field `m`"),
            (r#"{"tags":{"a":1}}"#, "tags.a: invalid type"),
        ] {
            assert!(wrong(text).contains(said), "{text}: {}", wrong(text));
        }
        let read: Outer = object(r#"{"n":9007199254740993,"inner":{"n":1},"raw":1e400}"#).expect("it is one");
        assert_eq!((read.n, read.inner.map(|inner| inner.n)), (9_007_199_254_740_993, Some(1)));
        assert_eq!((read.raw.expect("it is there").get(), read.tags.len()), ("1e400", 0));
    }
}
