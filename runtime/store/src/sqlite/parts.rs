//! Entries that were written in parts, as rows: the journal has how many they are, and nothing else of the entry.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::rows::{signed, unsigned};
use crate::error::{Result, StoreError};
use crate::parts::count;
use crate::rows::RunKey;

/// The view is the journal with whole entries, and null for one of which parts are missing. Whoever reads many rows looks at each (see
/// [`whole`]). What is left of an entry that never came may have more parts than the one in its place.
pub(super) const PARTED: &str = "
CREATE TABLE parts (
    run    INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    number INTEGER NOT NULL,
    bytes  BLOB NOT NULL,
    PRIMARY KEY (run, seq, number)
) STRICT;
ALTER TABLE journal ADD COLUMN in_parts INTEGER;
CREATE VIEW whole_journal AS SELECT run, seq, CASE WHEN in_parts IS NULL THEN entry ELSE (
    SELECT CASE WHEN count(*) = in_parts THEN CAST(group_concat(CAST(bytes AS TEXT), '' ORDER BY number) AS BLOB) END
    FROM parts WHERE parts.run = journal.run AND parts.seq = journal.seq AND number < in_parts
) END AS entry FROM journal;
";

/// Keeps a part. One of an entry that never came is written over.
pub(super) const ADD: &str = "INSERT OR REPLACE INTO parts (run, seq, number, bytes) VALUES (?1, ?2, ?3, ?4)";

/// Adds an entry to the journal, all parts of which have been kept. How many rows that is.
pub(super) fn add_entry(connection: &Connection, run: RunKey, seq: u64, entry: &[u8]) -> Result<usize> {
    let parts = count(entry);
    let sql = "SELECT count(*), sum(length(bytes)) FROM parts WHERE run = ?1 AND seq = ?2 AND number < ?3";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?));
    let kept: (u32, Option<i64>) = connection.prepare_cached(sql)?.query_row(params![run, signed(seq), parts], read)?;
    if kept != (parts, Some(signed(entry.len() as u64))) {
        return Err(StoreError::Internal(format!("parts of entry {seq} of run {run} were not kept before it")));
    }
    let sql = "INSERT INTO journal (run, seq, entry, in_parts) VALUES (?1, ?2, x'', ?3)";
    Ok(connection.prepare_cached(sql)?.execute(params![run, signed(seq), parts])?)
}

/// A row of the journal.
pub(super) struct Row {
    seq: u64,
    entry: Vec<u8>,
    in_parts: bool,
}

/// What a [`Row`] is read from.
pub(super) const COLUMNS: &str = "seq, entry, in_parts IS NOT NULL";

pub(super) fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok(Row { seq: unsigned(row.get(0)?), entry: row.get(1)?, in_parts: row.get(2)? })
}

/// The entry of a row of a run's journal, with its number. To be called in the transaction that the row was read in.
pub(super) fn whole(connection: &Connection, run: RunKey, row: Row) -> Result<(u64, Vec<u8>)> {
    let Row { seq, entry, in_parts } = row;
    if !in_parts {
        return Ok((seq, entry));
    }
    let sql = "SELECT entry FROM whole_journal WHERE run = ?1 AND seq = ?2";
    let read = |row: &rusqlite::Row<'_>| row.get::<_, Option<Vec<u8>>>(0);
    let entry = connection.prepare_cached(sql)?.query_row(params![run, signed(seq)], read).optional()?.flatten();
    match entry {
        Some(entry) => Ok((seq, entry)),
        None => Err(StoreError::Corrupt(format!("parts of entry {seq} of run {run} are missing"))),
    }
}
