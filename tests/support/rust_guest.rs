//! Guests in Rust (`tests/guests/rust`), compiled to WebAssembly: once for each content of their sources and each compiler.
//!
//! No toolchain is ever fetched from here. With the target installed it is an ordinary build; without it Debian's compiler does it,
//! whose packages bring the standard library as source.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use crate::binary::{Stepwell, target_dir};

const TARGET: &str = "wasm32-unknown-unknown";
/// Debian's compiler, and the standard library that belongs to it.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_LIBRARY: &str = "/usr/lib/rustlib/src/rust/library";
const MISSING: &str = "the tests' guests in Rust need a compiler for wasm32-unknown-unknown. Install its target \
    (`rustup target add wasm32-unknown-unknown`), or Debian's compiler with the source of its standard library \
    (`apt-get install --no-install-recommends rustc-web rust-web-src`)";

/// The core module of `tests/guests/rust`, with its component type embedded.
///
/// # Panics
/// If it does not build; where nothing is installed that could build it, with what to install.
#[must_use]
pub fn core_module() -> PathBuf {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    MODULE.get_or_init(build).clone()
}

/// What compiles for WebAssembly.
#[derive(Debug)]
enum Toolchain {
    /// The one that the tests themselves are built with.
    Own,
    /// Debian's compiler, with the linker that is in the own toolchain's sysroot.
    Debian { linker: PathBuf },
}

fn build() -> PathBuf {
    let source = Stepwell::workspace().join("tests/guests/rust");
    let toolchain = Toolchain::find().expect(MISSING);
    let dir = target_dir().join("guests");
    let kept = dir.join(format!("rust-{}.wasm", content(&source, &toolchain)));
    if kept.exists() {
        return kept;
    }
    let status = toolchain.cargo(&dir).current_dir(&source).status().expect("cargo runs");
    assert!(status.success(), "cargo build of {} with {toolchain:?}: {status}", source.display());
    let built = dir.join(TARGET).join("release/rust_guest.wasm");
    // Another process may be at the same: whoever is last puts the same there, and whole.
    let partial = dir.join(format!("partial-{}.wasm", std::process::id()));
    std::fs::copy(&built, &partial).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    std::fs::rename(&partial, &kept).expect("a file can be renamed beside itself");
    kept
}

impl Toolchain {
    fn find() -> Option<Self> {
        let sysroot = PathBuf::from(said(Command::new("rustc").args(["--print", "sysroot"]))?);
        if sysroot.join("lib/rustlib").join(TARGET).is_dir() {
            return Some(Self::Own);
        }
        let host = said(Command::new("rustc").args(["--print", "host-tuple"]))?;
        let linker = sysroot.join("lib/rustlib").join(host).join("bin/rust-lld");
        let there = Path::new(DEBIAN_RUSTC).is_file() && Path::new(DEBIAN_LIBRARY).is_dir() && linker.is_file();
        there.then_some(Self::Debian { linker })
    }

    /// What names the compiler, its version included.
    fn version(&self) -> String {
        let rustc = if matches!(self, Self::Own) { "rustc" } else { DEBIAN_RUSTC };
        said(Command::new(rustc).arg("-vV")).unwrap_or_default()
    }

    fn cargo(&self, target_dir: &Path) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--locked", "--release", "--target", TARGET, "--target-dir"]).arg(target_dir);
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC_WRAPPER"] {
            command.env_remove(name);
        }
        if let Self::Debian { linker } = self {
            // Only a compiler of the same make can compile that library's source; `build-std` is not stable.
            command.env("RUSTC", DEBIAN_RUSTC).env("RUSTC_BOOTSTRAP", "1");
            command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker).arg("-Zbuild-std=std,panic_abort");
        }
        command
    }
}

/// What a program prints; none where it is not there or fails.
fn said(command: &mut Command) -> Option<String> {
    let output = command.current_dir(Stepwell::workspace()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A digest of all that the module is made of.
fn content(source: &Path, toolchain: &Toolchain) -> String {
    let mut files = Vec::new();
    for dir in [source, &Stepwell::workspace().join("guest-sdk/wit")] {
        list(dir, &mut files);
    }
    files.sort();
    let mut digest = Sha256::new_with_prefix(toolchain.version());
    for file in files {
        let text = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let name = file.strip_prefix(Stepwell::workspace()).unwrap_or(&file);
        digest.update(format!("\0{}\0{}\0", name.display(), text.len()));
        digest.update(text);
    }
    digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All files of a directory, but for what a build by hand leaves there.
fn list(dir: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    for entry in entries {
        let path = entry.expect("a directory can be listed").path();
        if path.is_dir() && !path.ends_with("target") {
            list(&path, files);
        } else if path.is_file() {
            files.push(path);
        }
    }
}
