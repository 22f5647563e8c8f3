//! The journal's written form: what is read back is what was written, and bytes that nobody wrote are refused.

use arbitrary::Unstructured;
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::Entry;
use stepwell_core::journal::print::{Printer, Times};

use crate::entries;

/// The input as an entry's bytes, as the JSON of one, and as the making of one.
pub fn journal(data: &[u8]) {
    let as_json = [b"1", data].concat();
    for bytes in [data, &as_json] {
        if let Ok(entry) = codec::decode(0, bytes) {
            written_and_read(&entry);
        }
    }
    let mut u = Unstructured::new(data);
    let mut printer = Printer::new(Times::Relative);
    while !u.is_empty()
        && let Ok(entry) = entries::entry(&mut u)
    {
        written_and_read(&entry);
        let line = printer.line(&entry);
        assert!(!line.contains(['\n', '\r', '\0', '\u{1b}']), "{line:?}");
    }
}

fn written_and_read(entry: &Entry) {
    let bytes = codec::encode(entry);
    let text = String::from_utf8_lossy(&bytes);
    let again = codec::decode(0, &bytes).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(again, *entry, "{text}");
    assert_eq!(codec::encode(&again), bytes, "{text}");
}
