//! A new database is made beside its place and moved there once it is whole: whoever dies on the way leaves none, never half of
//! one. So whoever only reads, and could not roll anything back, never finds anything to roll back.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::errors::of_the_file;
use super::{DATABASE_FILE, SqliteOptions, configure, schema};
use crate::error::{Result, StoreError};

pub(super) const UNFINISHED_FILE: &str = "stepwell.db.new";

/// Makes the database of a directory that has none. The directory's lock is held.
pub(super) fn where_missing(directory: &Path, options: SqliteOptions) -> Result<()> {
    let file = directory.join(DATABASE_FILE);
    if is_there(&file) {
        return Ok(());
    }
    let log = beside(&file, "-wal");
    if is_there(&log) {
        return Err(StoreError::Corrupt(format!(
            "{} is there without its database: put {DATABASE_FILE} back beside it, or move both away to begin with an empty one",
            log.display()
        )));
    }
    let unfinished = place_of_new(directory)?;
    let mut connection = Connection::open(&unfinished)?;
    configure(&connection, options)?;
    schema::migrate(&mut connection)?;
    // Closing empties the write-ahead log into the file, and syncs it.
    connection.close().map_err(|(_, error)| error)?;
    move_into_place(&unfinished, &file, directory)
}

/// Where a new database is made. Nothing is there.
pub(super) fn place_of_new(directory: &Path) -> Result<PathBuf> {
    let unfinished = directory.join(UNFINISHED_FILE);
    for suffix in ["", "-journal", "-wal", "-shm"] {
        remove(&beside(&unfinished, suffix))?;
    }
    Ok(unfinished)
}

/// SQLite takes an empty file for a database without tables.
pub(super) fn is_there(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.len() > 0)
}

pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(super) fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(of_the_file(&file.display().to_string(), &error)),
        _ => Ok(()),
    }
}

pub(super) fn move_into_place(unfinished: &Path, file: &Path, directory: &Path) -> Result<()> {
    // The name is durable with the directory.
    let moved = fs::rename(unfinished, file).and_then(|()| File::open(directory)?.sync_all());
    moved.map_err(|error| of_the_file(&file.display().to_string(), &error))
}
