//! The lock file: one process for each data directory. The operating system lets it go with the process, however that ends.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::errors::of_the_file;
use crate::error::{Result, StoreError};

const LOCK_FILE: &str = "stepwell.lock";

/// Held as long as this lives.
pub(super) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Makes the directory if need be, and locks it.
    pub(super) fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(LOCK_FILE);
        let failed = |error: std::io::Error| of_the_file(&path.display().to_string(), &error);
        fs::create_dir_all(directory).map_err(|error| of_the_file(&directory.display().to_string(), &error))?;
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { directory: directory.to_owned(), pid: read_pid(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        write_pid(&mut file).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

/// For the message of whoever comes second; the lock itself does not depend on it.
fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "{}", std::process::id())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
