//! What was built, on disk, by the content that it was made from: finished components, and the runtime that they are made with.
//!
//! A file begins with a checksum; a damaged one counts as absent. It appears whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use sha2::{Digest, Sha256};

use crate::graph::Graph;
use crate::{BuildLine, sdk};

/// Raised when the build makes other bytes of the same sources, or writes files of another form.
const FORMAT: &str = "2";

const CHECKSUM: usize = 32;
const LENGTH: usize = 8;

/// The key of everything that a component is made from.
pub(crate) fn key(graph: &Graph) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    tools().into_iter().for_each(&mut add);
    for (name, text) in sdk::files() {
        add(name.as_bytes());
        add(text.as_bytes());
    }
    add(graph.entry.as_bytes());
    for (name, module) in &graph.modules {
        add(name.as_bytes());
        add(module.source.as_bytes());
        for (specifier, target) in &module.imports {
            add(specifier.as_bytes());
            add(target.as_bytes());
        }
    }
    hex(&hash.finalize())
}

/// What every component is made with.
pub(crate) fn tools() -> [&'static [u8]; 5] {
    [
        FORMAT.as_bytes(),
        env!("CARGO_PKG_VERSION").as_bytes(),
        // The exact versions of all that takes part.
        env!("STEPWELL_DEPENDENCIES").as_bytes(),
        componentize_qjs::default_runtime_wasm(),
        crate::runtime::CONTRACT.as_bytes(),
    ]
}

pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn path(dir: &Path, key: &str) -> PathBuf {
    dir.join(format!("{key}.built"))
}

/// The component kept under `key`, and what its top-level code had printed.
pub(crate) fn find(dir: &Path, key: &str) -> Option<(Vec<u8>, Vec<BuildLine>)> {
    let [output, component] = read(&path(dir, key))?;
    Some((component, serde_json::from_slice(&output).ok()?))
}

/// Keeps a component.
pub(crate) fn keep(dir: &Path, key: &str, component: &[u8], output: &[BuildLine]) -> io::Result<()> {
    write(&path(dir, key), [&serde_json::to_vec(output)?, component])
}

/// The parts of a file, if it is there and whole.
pub(crate) fn read<const PARTS: usize>(path: &Path) -> Option<[Vec<u8>; PARTS]> {
    let bytes = fs::read(path).ok()?;
    let (checksum, mut rest) = bytes.split_at_checked(CHECKSUM)?;
    if checksum != Sha256::digest(rest).as_slice() {
        return None;
    }
    let mut parts = [const { Vec::new() }; PARTS];
    for part in &mut parts {
        let (length, after) = rest.split_at_checked(LENGTH)?;
        let length = u64::from_le_bytes(length.try_into().ok()?);
        let (bytes, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
        *part = bytes.to_vec();
        rest = after;
    }
    Some(parts)
}

/// Writes a file of these parts beside its place and renames it, so that no reader sees half of one.
pub(crate) fn write<const PARTS: usize>(path: &Path, parts: [&[u8]; PARTS]) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut rest = Vec::with_capacity(parts.iter().map(|part| LENGTH + part.len()).sum());
    for part in parts {
        rest.extend_from_slice(&(part.len() as u64).to_le_bytes());
        rest.extend_from_slice(part);
    }
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = (|| {
        let mut file = fs::File::create(&temporary)?;
        file.write_all(&Sha256::digest(&rest))?;
        file.write_all(&rest)?;
        drop(file);
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // Best effort: the error that matters is the first one.
        let _ = fs::remove_file(&temporary);
    }
    written
}
