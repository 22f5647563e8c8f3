//! Makes the table of the JavaScript SDK's files that the crate embeds: all `.js` under `guest-sdk/js/src`. And a digest of the
//! lock file: what is cached on disk was made by those versions.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // Asked for when it runs: a target directory that is kept may hold this program as built for another clone.
    let package = env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| io::Error::other("cargo sets CARGO_MANIFEST_DIR"))?;
    let lock = Path::new(&package).join("../../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    let mut hasher = DefaultHasher::new();
    fs::read(lock)?.hash(&mut hasher);
    println!("cargo::rustc-env=STEPWELL_DEPENDENCIES={:016x}", hasher.finish());

    let root = Path::new(&package).join("../../guest-sdk/js/src").canonicalize()?;
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root).map_err(io::Error::other)?.to_string_lossy().replace('\\', "/");
        table.push_str(&format!("    ({name:?}, include_str!({file:?})),\n"));
    }
    table.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("sdk_files.rs"), table)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "js") {
            files.push(path);
        }
    }
    Ok(())
}
