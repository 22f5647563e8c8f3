//! Copies of a database, also of one that a process writes to: consistent as of one moment, and whole and on the disk, or not there
//! at all. How a copy becomes a database again is in `restore`.

use std::fs::{self, File};
use std::path::Path;

use rusqlite::Connection;

use super::errors::of_the_file;
use super::{DATABASE_FILE, create, open_to_read, schema};
use crate::error::{Result, StoreError};

/// A copy that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// How large the copy is.
    pub bytes: u64,
    /// How many runs it has.
    pub runs: u64,
}

/// Copies the database of a data directory to a file that is not there yet. Whoever writes to it is not held up; what is committed
/// meanwhile is not in the copy. The copy is one file, and has no write-ahead log.
///
/// # Errors
/// [`Missing`](StoreError::Missing) where there is no database, [`Exists`](StoreError::Exists) where the file is there,
/// [`NewerSchema`](StoreError::NewerSchema), [`Corrupt`](StoreError::Corrupt), and those of the disk. There is no file then.
pub fn back_up(directory: &Path, to: &Path) -> Result<Copied> {
    let file = directory.join(DATABASE_FILE);
    if !create::is_there(&file) {
        return Err(StoreError::Missing(directory.to_owned()));
    }
    let from = open_to_read(&file)?;
    schema::refuse_newer(&from)?;
    let failed = |error| of_the_file(&to.display().to_string(), &error);
    if fs::exists(to).map_err(failed)? {
        return Err(StoreError::Exists(to.to_owned()));
    }
    // Of this process alone: another that copies to the same name has a file of its own.
    let unfinished = create::beside(to, &format!(".{}.partial", std::process::id()));
    create::remove(&unfinished)?;
    let made = copy(&from, &unfinished).and_then(|runs| {
        let bytes = fs::metadata(&unfinished).map_err(failed)?.len();
        create::move_into_place(&unfinished, to, directory_of(to))?;
        Ok(Copied { bytes, runs })
    });
    if made.is_err() {
        // What is left of it is in nobody's way; the first error says why.
        let _ = fs::remove_file(&unfinished);
    }
    made
}

/// Copies a database as it is at this moment, and brings the copy to the disk. How many runs it has.
pub(super) fn copy(from: &Connection, to: &Path) -> Result<u64> {
    let name = to.to_str().ok_or_else(|| StoreError::Io(format!("{} is no text", to.display())))?;
    // One read transaction: writers go on beside it.
    from.execute("VACUUM INTO ?1", [name])?;
    let failed = |error| of_the_file(name, &error);
    File::open(to).and_then(|file| file.sync_all()).map_err(failed)?;
    // Counted one by one: the tables may be those of the first version.
    let runs: i64 = open_to_read(to)?.query_row("SELECT count(*) FROM runs", [], |row| row.get(0))?;
    Ok(super::rows::unsigned(runs))
}

fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}
