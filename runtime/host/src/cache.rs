//! Compiled modules on disk. A file is used only if it is whole and of this wasmtime with these settings; otherwise it is made anew.
//!
//! A file is a magic text, the SHA-256 of what follows, and wasmtime's own serialisation. Its name holds the module's digest and a
//! hash over wasmtime's version, the target and every setting that matters to compiled code.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};
use stepwell_core::ids::{Digest, hex};
use wasmtime::Engine;

const MAGIC: &[u8; 16] = b"stepwell cwasm 1";
const HEADER: usize = MAGIC.len() + 32;

/// The folder of one host.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: PathBuf,
    compatibility: String,
}

impl Cache {
    pub(crate) fn new(dir: PathBuf, engine: &Engine) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        let mut hasher = Sha256Hasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { dir, compatibility: hex(&hasher.0.finalize()[..8]) })
    }

    /// The serialised module, if there is a file and it is whole. One that is not is reported and left to be replaced.
    pub(crate) fn read(&self, digest: &Digest) -> Option<Vec<u8>> {
        let path = self.path(digest);
        let mut bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => {
                tracing::warn!(path = %path.display(), error = %e, "cannot read a compiled module; compiling it again");
                return None;
            }
        };
        let whole = bytes.get(..HEADER).is_some_and(|header| {
            header.starts_with(MAGIC) && header[MAGIC.len()..] == *Sha256::digest(&bytes[HEADER..])
        });
        if !whole {
            tracing::warn!(path = %path.display(), "a compiled module is damaged; compiling it again");
            return None;
        }
        Some(bytes.split_off(HEADER))
    }

    /// Writes the file beside its place and renames it, so that no reader ever sees half of one. Not being able to costs the next
    /// start some time and nothing else.
    pub(crate) fn write(&self, digest: &Digest, serialized: &[u8]) {
        if let Err(e) = write_whole(&self.path(digest), serialized) {
            tracing::warn!(dir = %self.dir.display(), error = %e, "cannot keep a compiled module");
        }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.dir.join(format!("{digest}-{}.cwasm", self.compatibility))
    }
}

fn write_whole(path: &Path, serialized: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let unique = format!("{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let temporary = path.with_extension(unique);
    let written = (|| {
        let mut file = fs::File::create_new(&temporary)?;
        file.write_all(MAGIC)?;
        file.write_all(&Sha256::digest(serialized))?;
        file.write_all(serialized)?;
        drop(file);
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // Best effort: the error that matters is the first one.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// SHA-256 as a `Hasher`, since the standard one promises nothing across versions of Rust.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        digest[..8].iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}
