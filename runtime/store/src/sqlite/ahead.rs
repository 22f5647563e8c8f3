//! Room in the write-ahead log, made before it is needed: a commit that makes the file longer waits for the file system's own journal
//! as well, which takes as long as the sync itself. One that writes over what is there does not.
//!
//! SQLite writes its log over and over, so it has this room once it has been through it; before that it is made here. What is written is
//! zeros behind the log's end, which are no frames. To be called within a transaction: nobody else writes to the log then.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Room is made for as much as the log has, within these bounds, in bytes: a short life needs little.
const LEAST: u64 = 64 << 10;
const MOST: u64 = 1 << 20;

pub(super) struct Ahead {
    /// `None` where the log is left to itself.
    log: Option<File>,
    /// The file's length when it was last looked at, and what was made of it.
    length: u64,
    /// A log of this length is written over from its beginning.
    enough: u64,
}

impl Ahead {
    /// For the log of this name, which is there. SQLite begins it anew after about `enough` bytes.
    pub(super) fn of(log: &Path, enough: u64) -> Self {
        // SQLite's locks are on other files: that this one is closed again takes none of them away.
        Self { log: File::options().write(true).open(log).ok(), length: 0, enough }
    }

    /// Makes room where SQLite has come to the end of it.
    pub(super) fn make_room(&mut self) {
        let Some(log) = &self.log else { return };
        match grown(log, self.length, self.enough) {
            Ok(length) => self.length = length,
            Err(error) => {
                // A full disk, perhaps: whoever needs the room will find out.
                tracing::debug!(%error, "the write-ahead log grows by itself from now on");
                self.log = None;
            }
        }
    }
}

/// The file's length afterwards.
fn grown(log: &File, before: u64, enough: u64) -> io::Result<u64> {
    let length = log.metadata()?.len();
    if length <= before || length >= enough {
        return Ok(length);
    }
    let room = length.clamp(LEAST, MOST).min(enough - length);
    log.write_all_at(&vec![0; usize::try_from(room).unwrap_or(0)], length)?;
    Ok(length + room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_once_for_each_time_that_the_log_has_grown_and_only_behind_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, [1; 3000]).unwrap();
        let mut ahead = Ahead::of(&path, 3 << 20);
        let length = || std::fs::metadata(&path).unwrap().len();
        ahead.make_room();
        assert_eq!(length(), 3000 + LEAST);
        ahead.make_room();
        assert_eq!(length(), 3000 + LEAST, "nothing has come since");
        let log = File::options().write(true).open(&path).unwrap();
        log.write_all_at(&[2; 5000], 3000).unwrap();
        ahead.make_room();
        assert_eq!(length(), 3000 + LEAST, "there is room");
        log.write_all_at(&[3; 10], length()).unwrap();
        ahead.make_room();
        assert_eq!(length(), 2 * (3010 + LEAST));
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes[..3000].iter().all(|byte| *byte == 1) && bytes[3000..8000].iter().all(|byte| *byte == 2));
        log.set_len(2 << 20).unwrap();
        ahead.make_room();
        assert_eq!(length(), 3 << 20);
        log.write_all_at(&[3], 3 << 20).unwrap();
        ahead.make_room();
        assert_eq!(length(), (3 << 20) + 1, "it is long enough");
        log.set_len(0).unwrap();
        ahead.make_room();
        assert_eq!(length(), 0);
    }
}
