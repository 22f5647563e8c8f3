//! Other systems that run steps durably: what runs them, whether it is installed, and when what they did is on the disk.
//!
//! Their programs are embedded here and run with what this machine has. Nothing is installed from here.

use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use serde::Deserialize;
use serde::de::DeserializeOwned;

const DBOS: &str = include_str!("../peers/dbos_steps.py");
const RESTATE: &str = include_str!("../peers/restate_steps.cjs");

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// DBOS for Python, with its system database in SQLite.
    Dbos,
    /// Restate: its server, and a service in Node.js.
    Restate,
}

/// What a program says when it is asked for nothing.
#[derive(Deserialize)]
struct Installed {
    installed: String,
}

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dbos => "dbos",
            Self::Restate => "restate",
        }
    }

    /// Its versions; an error says what to install.
    pub(crate) fn installed(self) -> Result<String> {
        let (name, install) = (self.name(), self.how_to_install());
        match self.command().stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => {
                let Installed { installed } = parse(&String::from_utf8_lossy(&output.stdout))?;
                Ok(installed)
            }
            Ok(output) => bail!("{name} is not installed, or does not work: {}\n{install}", last_words(&output)),
            Err(error) => bail!("{name} cannot be run: {}: {error}\n{install}", self.interpreter()),
        }
    }

    fn interpreter(self) -> &'static str {
        match self {
            Self::Dbos => "python3",
            Self::Restate => "node",
        }
    }

    /// Its program, to be given arguments.
    pub(crate) fn command(self) -> Command {
        let mut command = Command::new(self.interpreter());
        match self {
            Self::Dbos => command.args(["-c", DBOS]),
            Self::Restate => command.args(["--eval", RESTATE]),
        };
        command
    }

    fn how_to_install(self) -> &'static str {
        match self {
            Self::Dbos => {
                "install it with `pip install dbos`, in the environment that `python3` on the PATH belongs to"
            }
            Self::Restate => {
                "install it with `npm install @restatedev/restate-server @restatedev/restate-sdk`, in the directory that \
                 this is run from or in one that NODE_PATH names (its `node_modules`)"
            }
        }
    }

    /// When what it has done is on the disk, with the settings that it itself told.
    pub(crate) fn durability(self, settings: &str) -> String {
        match self {
            Self::Dbos => format!(
                "One transaction of SQLite for each step, committed before the next begins; its connections say {settings} \
                 (2 is FULL: a commit waits for the disk). It sets neither itself."
            ),
            Self::Restate => format!(
                "One node, its settings as they come: {settings} (false: each batch that is written to its log waits for the \
                 disk). A step's result is in the log before the next begins."
            ),
        }
    }
}

/// A line that a peer said.
pub(crate) fn parse<T: DeserializeOwned>(line: &str) -> Result<T> {
    serde_json::from_str(line.trim()).with_context(|| format!("a peer said {:?}", line.trim()))
}

/// The line of an error that says most, in Python and in Node.js.
fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let telling = text.lines().rev().find(|line| line.contains("Error"));
    telling.or_else(|| text.lines().last()).unwrap_or_default().trim().to_owned()
}
