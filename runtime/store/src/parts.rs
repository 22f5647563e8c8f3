//! Long entries are written in parts: each is a write of its own, so that quick writes of other runs have their commits in between. The
//! entry itself comes last, and says how many parts it has. Until then they are nothing: a process that dies in between leaves some
//! behind, which are written over or go with their run.
//!
//! Plain data; what is kept of it is the implementation's.

use crate::rows::{Append, RunKey};

/// A longer entry is written in parts.
const LONG: usize = 128 << 10;
/// So long is each of them, but the last.
const PART: usize = 96 << 10;

/// A part of an entry that is to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) run: RunKey,
    /// The entry's number.
    pub(crate) seq: u64,
    /// Which part it is, from 0.
    pub(crate) number: u32,
    pub(crate) bytes: Vec<u8>,
}

/// How many an entry has that is written in parts.
pub(crate) fn count(entry: &[u8]) -> u32 {
    u32::try_from(entry.len().div_ceil(PART)).unwrap_or(u32::MAX)
}

/// Whether an entry of a batch has been written in parts before.
pub(crate) fn is_in_parts(batch: &Append, entry: &[u8]) -> bool {
    // Without its number nobody knows whose parts they are.
    batch.first_seq.is_some() && entry.len() > LONG
}

/// The parts that are to be written before a batch.
pub(crate) fn before(batch: &Append) -> Vec<Part> {
    let run = batch.run;
    let entries = (batch.first_seq.unwrap_or(0)..).zip(&batch.entries);
    let long = entries.filter(|(_, entry)| is_in_parts(batch, entry));
    let parts = long.flat_map(|(seq, entry)| {
        let parts = (0..).zip(entry.chunks(PART));
        parts.map(move |(number, bytes)| Part { run, seq, number, bytes: bytes.to_vec() })
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_entries_have_parts_that_make_them_up() {
        let lengths = [LONG, LONG + 1, 1, 3 * PART, 3 * PART + 1];
        let entries: Vec<Vec<u8>> = lengths.iter().map(|length| (0..*length).map(|at| at as u8).collect()).collect();
        let batch = Append::entries(7, 40, entries.clone());
        let parts = before(&batch);
        assert!(parts.iter().all(|part| part.run == 7 && part.bytes.len() <= PART));
        for (seq, entry) in (40..).zip(entries) {
            let of_entry: Vec<_> = parts.iter().filter(|part| part.seq == seq).collect();
            assert!((0..).zip(&of_entry).all(|(number, part)| part.number == number));
            let bytes: Vec<u8> = of_entry.iter().flat_map(|part| part.bytes.clone()).collect();
            if is_in_parts(&batch, &entry) {
                assert_eq!((bytes, of_entry.len()), (entry.clone(), count(&entry) as usize));
            } else {
                assert!(of_entry.is_empty() && entry.len() <= LONG);
            }
        }
        assert!(before(&Append { first_seq: None, ..batch }).is_empty());
    }
}
