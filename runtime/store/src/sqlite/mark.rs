//! The high-water mark: a small file beside the database that says how many rows have been acknowledged.
//!
//! A database that has fewer rows than were acknowledged has lost some: it is an older copy, its write-ahead log was taken away, or
//! the disk forgot what it had said it kept. Going on would repeat effects whose record is gone, so it is refused.
//!
//! The mark is written after each commit and before anybody hears of it, and left to the operating system to bring to the disk: that
//! costs a microsecond, and an older mark claims too little, never too much. So what it cannot tell is a loss that took the mark's last
//! values along, such as a whole directory put back from a copy.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::errors::of_the_file;
use crate::error::{Result, StoreError};

/// The mark's file in the data directory.
const MARK_FILE: &str = "stepwell.mark";

pub(super) struct Mark {
    file: File,
    path: PathBuf,
    /// What the file says.
    height: u64,
}

impl Mark {
    /// Opens the mark of a directory, or makes it, and holds the database against it.
    ///
    /// # Errors
    /// [`StoreError::Behind`] when the database has fewer rows than the mark says; those of the disk.
    pub(super) fn check(directory: &Path, connection: &Connection) -> Result<Self> {
        let path = directory.join(MARK_FILE);
        let failed = |error: io::Error| of_the_file(&path.display().to_string(), &error);
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let mut text = String::new();
        // What is no text was not written here, and says nothing.
        let read = file.read_to_string(&mut text).map_or(None, |_| parse(&text));
        let found = height(connection)?;
        if let Some(acknowledged) = read.filter(|acknowledged| *acknowledged > found) {
            return Err(StoreError::Behind { found, acknowledged, mark: path });
        }
        let mut mark = Self { file, path, height: 0 };
        mark.set(found)?;
        Ok(mark)
    }

    /// Begins anew from what the database has: it was restored on purpose.
    pub(super) fn reset(directory: &Path, connection: &Connection) -> Result<()> {
        let path = directory.join(MARK_FILE);
        let failed = |error: io::Error| of_the_file(&path.display().to_string(), &error);
        let file = File::options().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let mut mark = Self { file, path: path.clone(), height: 0 };
        mark.set(height(connection)?)?;
        mark.sync().map_err(failed)
    }

    /// So many rows more are durable.
    pub(super) fn rise(&mut self, rows: u64) -> Result<()> {
        if rows == 0 { Ok(()) } else { self.set(self.height + rows) }
    }

    fn set(&mut self, height: u64) -> Result<()> {
        self.height = height;
        let failed = |error| of_the_file(&self.path.display().to_string(), &error);
        self.file.write_all_at(text(height).as_bytes(), 0).map_err(failed)
    }

    /// Brings the mark to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The number, and its complement: a file that was torn is told from one that is whole.
fn text(height: u64) -> String {
    format!("{height:020} {:020}\n", !height)
}

fn parse(text: &str) -> Option<u64> {
    let (height, complement) = text.trim_end().split_once(' ')?;
    let height: u64 = height.parse().ok()?;
    (complement.parse() == Ok(!height)).then_some(height)
}

/// Rows that were ever added to the tables whose rows stay: rows are numbered from 1 without gaps.
fn height(connection: &Connection) -> Result<u64> {
    let sql = "SELECT (SELECT ifnull(max(rowid), 0) FROM journal) + (SELECT ifnull(max(rowid), 0) FROM inbox)
        + (SELECT ifnull(max(id), 0) FROM runs)";
    let height: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(super::rows::unsigned(height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_a_torn_one_says_nothing() {
        for height in [0, 1, 12_345_678_901, u64::MAX] {
            assert_eq!(parse(&text(height)), Some(height));
        }
        let (old, new) = (text(9), text(10));
        for cut in 1..new.len() {
            let torn = format!("{}{}", &new[..cut], &old[cut..]);
            assert!(matches!(parse(&torn), None | Some(9 | 10)), "{torn:?}");
        }
        assert_eq!(parse(""), None);
    }
}
