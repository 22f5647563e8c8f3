//! The programs under test: built once, found by everybody.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The `stepwell` program, and the `shop` that stands for the world.
///
/// `STEPWELL_BIN` and `SHOP_BIN` name them where they are built already. Else cargo builds them on first use, into
/// `CARGO_TARGET_DIR` or the workspace's `target`.
pub struct Stepwell;

impl Stepwell {
    /// The path of `stepwell`.
    #[must_use]
    pub fn path() -> &'static Path {
        static PATH: OnceLock<PathBuf> = OnceLock::new();
        PATH.get_or_init(|| named("STEPWELL_BIN").unwrap_or_else(|| built().join("stepwell")))
    }

    /// The path of `shop`.
    #[must_use]
    pub fn shop() -> PathBuf {
        named("SHOP_BIN").unwrap_or_else(|| built().join("shop"))
    }

    /// The workspace's folder.
    #[must_use]
    pub fn workspace() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is a folder of the workspace")
    }

    /// `stepwell` without any setting of the surrounding shell.
    #[must_use]
    pub fn command() -> Command {
        let mut command = Command::new(Self::path());
        bare(&mut command);
        command
    }
}

/// Takes settings of the surrounding shell away.
pub(crate) fn bare(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("STEPWELL_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
}

fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

/// The folder that the programs are built in.
fn built() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let workspace = Stepwell::workspace();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--quiet", "--workspace", "--bins"])
            .current_dir(workspace)
            .status()
            .expect("cargo runs");
        assert!(status.success(), "cargo build --workspace --bins: {status}");
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), |dir| workspace.join(dir));
        target.join("debug")
    })
}
