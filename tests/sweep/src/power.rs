//! What a loss of power leaves: the disk at any moment of a recorded run, with unsynced writes lost or torn.
//!
//! A kill keeps what the operating system has in its memory, a loss of power does not. A program is run with `shim/disk.c` preloaded,
//! which logs every write and sync of the real SQLite on the real files; from the log the disk is put together as the worst machine
//! would have it: content counts from its file's sync on, a name from its directory's, and what is not synced is there or not,
//! sector by sector. (A VFS of SQLite's own would have to be written in unsafe code, and would test another one than is shipped;
//! a system-call tracer shows the same and needs more rights.)

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, bail, ensure};
use rand::Rng as _;
use rand::rngs::SmallRng;

/// What a disk writes as a whole, in bytes.
const SECTOR: usize = 512;

/// A thing that the program did to the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Did {
    /// Made an empty file.
    Created(String),
    /// Wrote at an offset.
    Wrote(String, usize, Vec<u8>),
    /// Set a file's length.
    Truncated(String, usize),
    /// Brought a file's content, or a directory's names, to the disk.
    Synced(String),
    /// Took a name away.
    Unlinked(String),
    /// Gave a file another name.
    Renamed(String, String),
    /// Gave a file a second name.
    Linked(String, String),
    /// Made a directory.
    Directory(String),
}

/// Reads a log.
///
/// # Errors
/// When it is none.
pub fn read(log: &Path) -> anyhow::Result<Vec<Did>> {
    let bytes = std::fs::read(log)?;
    let mut rest = &bytes[..];
    let mut take = |n: usize| {
        // A kill may cut the last record short.
        let (taken, after) = rest.split_at_checked(n)?;
        rest = after;
        Some(taken.to_vec())
    };
    let mut log = Vec::new();
    while let Some(head) = take(40) {
        let number = |at: usize| {
            let eight = head[at * 8..at * 8 + 8].try_into().expect("a slice of eight");
            usize::try_from(u64::from_ne_bytes(eight)).expect("64 bit")
        };
        let (Some(a), Some(b), Some(data)) = (take(number(1)), take(number(2)), take(number(4))) else { break };
        let (a, b) = (String::from_utf8(a)?, String::from_utf8(b)?);
        log.push(match number(0) {
            1 => Did::Created(a),
            2 => Did::Wrote(a, number(3), data),
            3 => Did::Truncated(a, number(3)),
            4 => Did::Synced(a),
            5 => Did::Unlinked(a),
            6 => Did::Renamed(a, b),
            7 => Did::Linked(a, b),
            8 => Did::Directory(a),
            kind => bail!("a record of kind {kind}"),
        });
    }
    Ok(log)
}

/// How much of what is not synced is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Nothing: neither content nor names.
    Nothing,
    /// All names, no content.
    Names,
    /// Some names, and of each write some sectors.
    Some,
    /// Nothing but of files whose name ends so.
    Only(&'static str),
    /// All of it, as a kill leaves it.
    All,
}

#[derive(Debug, Clone, Default)]
struct Content {
    synced: Vec<u8>,
    since: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

type Names = BTreeMap<String, usize>;

/// A disk on which a log is played.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    contents: Vec<Content>,
    now: Names,
    /// Those that are synced, and then each change since.
    names: Vec<Names>,
}

impl Disk {
    /// A disk with an empty directory.
    #[must_use]
    pub fn new() -> Self {
        Self { names: vec![Names::new()], ..Self::default() }
    }

    /// The next thing is done.
    ///
    /// # Errors
    /// When it is done to a file that is not there.
    pub fn play(&mut self, did: &Did) -> anyhow::Result<()> {
        match did {
            Did::Created(path) => {
                self.contents.push(Content::default());
                self.now.insert(path.clone(), self.contents.len() - 1);
                self.renamed();
            }
            Did::Wrote(path, at, data) => self.content(path)?.since.push(Change::Write(*at, data.clone())),
            Did::Truncated(path, length) => self.content(path)?.since.push(Change::Length(*length)),
            Did::Synced(path) => match self.now.get(path) {
                Some(file) => {
                    let content = &mut self.contents[*file];
                    content.synced = content.with(&mut |_| true);
                    content.since.clear();
                }
                // A directory, and there is only one.
                None => self.names = vec![self.now.clone()],
            },
            Did::Unlinked(path) => {
                self.now.remove(path);
                self.renamed();
            }
            Did::Renamed(from, to) => {
                let file = self.now.remove(from).with_context(|| format!("{from} is renamed, and not there"))?;
                self.now.insert(to.clone(), file);
                self.renamed();
            }
            Did::Linked(from, to) => {
                let file = *self.now.get(from).with_context(|| format!("{from} is linked, and not there"))?;
                self.now.insert(to.clone(), file);
                self.renamed();
            }
            Did::Directory(_) => {}
        }
        Ok(())
    }

    fn renamed(&mut self) {
        self.names.push(self.now.clone());
    }

    fn content(&mut self, path: &str) -> anyhow::Result<&mut Content> {
        let file = *self.now.get(path).with_context(|| format!("{path} is written, and not there"))?;
        Ok(&mut self.contents[file])
    }

    /// Puts the directory together as it is after a loss of power now.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn lose_power(&self, left: Left, random: &mut SmallRng, into: &Path) -> anyhow::Result<()> {
        let names = match left {
            Left::Nothing => &self.names[0],
            Left::Some => &self.names[random.random_range(0..self.names.len())],
            Left::Names | Left::Only(_) | Left::All => &self.now,
        };
        for (path, file) in names {
            let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or("");
            let bytes = self.contents[*file].with(&mut |_| match left {
                Left::Nothing | Left::Names => false,
                Left::Some => random.random_bool(0.5),
                Left::Only(ending) => name.ends_with(ending),
                Left::All => true,
            });
            // The index of the write-ahead log is written through memory and is no part of what is kept.
            if !name.ends_with("-shm") {
                std::fs::write(into.join(name), bytes)?;
            }
        }
        Ok(())
    }
}

impl Content {
    /// What is synced and, of what came since, those sectors that `there` says.
    fn with(&self, there: &mut dyn FnMut(usize) -> bool) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        for change in &self.since {
            match change {
                Change::Length(length) if there(*length) => bytes.resize(*length, 0),
                Change::Length(_) => {}
                Change::Write(at, data) => {
                    let mut from = 0;
                    while from < data.len() {
                        let start = at + from;
                        let to = data.len().min(from + SECTOR - start % SECTOR);
                        if there(start) {
                            let end = at + to;
                            if bytes.len() < end {
                                bytes.resize(end, 0);
                            }
                            bytes[start..end].copy_from_slice(&data[from..to]);
                        }
                        from = to;
                    }
                }
            }
        }
        bytes
    }
}

/// The shim, compiled once in a process.
///
/// # Errors
/// When there is no C compiler, or it fails.
pub fn shim() -> anyhow::Result<&'static Path> {
    static SHIM: OnceLock<Result<(tempfile::TempDir, PathBuf), String>> = OnceLock::new();
    let made = SHIM.get_or_init(|| compile().map_err(|error| format!("{error:#}")));
    made.as_ref().map(|(_, path)| path.as_path()).map_err(|error| anyhow::anyhow!("{error}"))
}

fn compile() -> anyhow::Result<(tempfile::TempDir, PathBuf)> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("disk.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim/disk.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&path)
        .arg(source)
        .args(["-ldl", "-lpthread"])
        .output();
    let compiled = compiled.context("the shim needs a C compiler, `cc`")?;
    ensure!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Ok((dir, path))
}
