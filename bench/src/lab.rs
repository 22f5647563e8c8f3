//! What every part needs: guests, compiled once; data directories on a disk; how much is to be done.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use stepwell_engine::http::{AddressPolicy, Destinations, HttpClient, HttpSettings};
use stepwell_engine::{Engine, Reach, Settings};
use tempfile::TempDir;

use crate::args::{Args, Part};
use crate::guests::{self, Guest};
use crate::machine;
use crate::peer::Peer;

/// Where nothing else is asked for.
const AT_ONCE: [u32; 4] = [1, 64, 256, 1_000];

pub(crate) struct Lab {
    pub(crate) quick: bool,
    pub(crate) rounds: u32,
    /// TypeScript, text and, where one was given or can be built, Rust.
    pub(crate) guests: Vec<Guest>,
    /// Why there is none in Rust, where one was to be measured.
    pub(crate) missing: Option<String>,
    /// Which of them are compared; all of them where none is named.
    compared: Vec<String>,
    /// At how many runs at once.
    pub(crate) at_once: Vec<u32>,
    /// What is measured beside Stepwell, and its versions.
    pub(crate) peers: Vec<(Peer, String)>,
    root: TempDir,
    /// Modules in their compiled form, to be put into data directories.
    compiled: PathBuf,
}

impl Lab {
    pub(crate) async fn open(args: &Args, peers: Vec<(Peer, String)>) -> Result<Self> {
        let beside = std::env::current_exe()?.parent().map(Path::to_owned).context("the program is in no directory")?;
        let dir = args.dir.clone().unwrap_or(beside);
        machine::must_be_on_disk(&dir)?;
        let root = tempfile::Builder::new().prefix("stepwell-bench-").tempdir_in(&dir)?;
        eprintln!("building the guests");
        let mut guests = vec![guests::typescript(root.path())?, guests::text()?];
        let mut missing = None;
        match &args.rust_guest {
            Some(file) => guests.push(guests::rust(file)?),
            None if args.compares("rust") && (args.wants(Part::Compute) || args.wants(Part::Replay)) => {
                match guests::rust_of_the_tests() {
                    Ok(guest) => guests.push(guest),
                    Err(why) => missing = Some(format!("No guest in Rust was measured: {why:#}.")),
                }
            }
            None => {}
        }
        let template = root.path().join("template");
        let engine = Engine::open(Settings::new(&template), client(), Reach::default())?;
        for guest in &guests {
            engine.add_module(guest.component.clone()).await?;
        }
        drop(engine);
        let compiled = template.join("compiled");
        let rounds = args.rounds.unwrap_or(if args.quick { 2 } else { 5 });
        let at_once = if args.at_once.is_empty() { AT_ONCE.to_vec() } else { args.at_once.clone() };
        Ok(Self {
            quick: args.quick,
            rounds,
            guests,
            missing,
            compared: args.guest.clone(),
            at_once,
            peers,
            root,
            compiled,
        })
    }

    /// The guests that are compared.
    pub(crate) fn compared(&self) -> impl Iterator<Item = &Guest> {
        self.guests
            .iter()
            .filter(|guest| self.compared.is_empty() || self.compared.iter().any(|name| name == guest.name))
    }

    /// So much, or for a quick look so much less.
    pub(crate) fn scaled(&self, full: u32, quick: u32) -> u32 {
        if self.quick { quick } else { full }
    }

    pub(crate) fn guest(&self, name: &str) -> Result<&Guest> {
        self.guests.iter().find(|guest| guest.name == name).with_context(|| format!("there is no guest {name}"))
    }

    /// A new data directory that has all modules compiled.
    pub(crate) fn data_dir(&self) -> Result<TempDir> {
        let dir = tempfile::Builder::new().prefix("data-").tempdir_in(self.root.path())?;
        let there = dir.path().join("compiled");
        std::fs::create_dir(&there)?;
        for file in std::fs::read_dir(&self.compiled)? {
            let file = file?;
            std::fs::hard_link(file.path(), there.join(file.file_name()))?;
        }
        Ok(dir)
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The component's bytes in a file.
    pub(crate) fn file_of(&self, guest: &Guest) -> Result<PathBuf> {
        let file = self.root.path().join(format!("{}.wasm", guest.name));
        if !file.exists() {
            std::fs::write(&file, &guest.component)?;
        }
        Ok(file)
    }
}

/// An engine over this directory, as the product sets it up.
pub(crate) fn engine(data_dir: &Path) -> Result<Engine> {
    Engine::open(Settings::new(data_dir), client(), Reach::default())
}

/// The product's client, with this machine open.
pub(crate) fn client() -> HttpClient {
    let addresses = AddressPolicy { allow_loopback: true, ..AddressPolicy::default() };
    HttpClient::new(HttpSettings { allow: Destinations::Any, addresses, ..HttpSettings::default() })
}

/// This program, to be run as a child.
pub(crate) fn child(what: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--child", what]);
    Ok(command)
}
