//! Finished components on disk, by the content that they were made from.
//!
//! A file holds a checksum, the output of top-level code and the component; a damaged one counts as absent.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use sha2::{Digest, Sha256};

use crate::graph::Graph;
use crate::{BuildLine, sdk};

/// Raised when the build makes other bytes of the same sources.
const FORMAT: &str = "1";

const CHECKSUM: usize = 32;
const LENGTH: usize = 4;

/// The key of everything that a component is made from.
pub(crate) fn key(graph: &Graph) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    add(FORMAT.as_bytes());
    add(env!("CARGO_PKG_VERSION").as_bytes());
    add(componentize_qjs::default_runtime_wasm());
    add(crate::runtime::CONTRACT.as_bytes());
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
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn path(dir: &Path, key: &str) -> PathBuf {
    dir.join(format!("{key}.built"))
}

/// The component kept under `key`, and what its top-level code had printed.
pub(crate) fn find(dir: &Path, key: &str) -> Option<(Vec<u8>, Vec<BuildLine>)> {
    let bytes = fs::read(path(dir, key)).ok()?;
    let (checksum, rest) = bytes.split_at_checked(CHECKSUM)?;
    if checksum != Sha256::digest(rest).as_slice() {
        return None;
    }
    let (length, rest) = rest.split_at_checked(LENGTH)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let (output, component) = rest.split_at_checked(length)?;
    Some((component.to_vec(), serde_json::from_slice(output).ok()?))
}

/// Keeps a component. The file appears whole or not at all.
pub(crate) fn keep(dir: &Path, key: &str, component: &[u8], output: &[BuildLine]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let output = serde_json::to_vec(output)?;
    let mut rest = u32::try_from(output.len()).map_err(io::Error::other)?.to_le_bytes().to_vec();
    rest.extend_from_slice(&output);
    rest.extend_from_slice(component);
    let temporary = dir.join(format!("{key}.{}.tmp", std::process::id()));
    let mut file = fs::File::create(&temporary)?;
    file.write_all(&Sha256::digest(&rest))?;
    file.write_all(&rest)?;
    drop(file);
    fs::rename(&temporary, path(dir, key))
}
