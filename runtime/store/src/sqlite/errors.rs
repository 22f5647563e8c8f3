//! What SQLite and the file system say, in the store's terms.

use std::io;

use rusqlite::{Error as SqliteError, ErrorCode};

use crate::error::StoreError;

impl From<SqliteError> for StoreError {
    fn from(error: SqliteError) -> Self {
        let text = error.to_string();
        match error {
            SqliteError::SqliteFailure(code, _) => match code.code {
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy(text),
                ErrorCode::DiskFull => Self::DiskFull(text),
                ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Self::ReadOnly(text),
                ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::FileLockingProtocolFailed => {
                    Self::Io(text)
                }
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Corrupt(text),
                _ => Self::Internal(text),
            },
            SqliteError::FromSqlConversionFailure(..)
            | SqliteError::IntegralValueOutOfRange(..)
            | SqliteError::InvalidColumnType(..)
            | SqliteError::Utf8Error(..) => Self::Corrupt(text),
            _ => Self::Internal(text),
        }
    }
}

/// A failure to do something with a file of the data directory.
pub(super) fn of_the_file(what: &str, error: &io::Error) -> StoreError {
    let text = format!("{what}: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::DiskFull(text),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => StoreError::ReadOnly(text),
        _ => StoreError::Io(text),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn the_codes_of_sqlite_are_sorted_by_what_to_do() {
        let of = |code| StoreError::from(SqliteError::SqliteFailure(ffi::Error::new(code), None));
        assert!(matches!(of(ffi::SQLITE_FULL), StoreError::DiskFull(_)));
        assert!(matches!(of(ffi::SQLITE_READONLY_DIRECTORY), StoreError::ReadOnly(_)));
        assert!(matches!(of(ffi::SQLITE_IOERR_FSYNC), StoreError::Io(_)));
        assert!(matches!(of(ffi::SQLITE_BUSY_SNAPSHOT), StoreError::Busy(_)));
        assert!(matches!(of(ffi::SQLITE_NOTADB), StoreError::Corrupt(_)));
        assert!(matches!(of(ffi::SQLITE_CONSTRAINT_UNIQUE), StoreError::Internal(_)));
    }
}
