//! The command line.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, ValueEnum};

use crate::peer::Peer;

/// Measures Stepwell beside what it stands on, on this machine: the disk, the store's writer, a guest's calls, the HTTP client.
///
/// Beside other systems that run steps durably, too, where `--peer` names them and they are installed.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Fewer rounds and smaller sizes: for a look, not for a number.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only this part. Can be given more than once.
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) only: Vec<Part>,
    /// Only so many runs at once. Can be given more than once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) at_once: Vec<u32>,
    /// Only this guest, where guests are compared. Can be given more than once.
    #[arg(long, value_name = "NAME")]
    pub(crate) guest: Vec<String>,
    /// Also the same steps on this system, beside the TypeScript guest's in the parts `compute` and `post`. Can be given more than once.
    ///
    /// It is run with the `python3` or `node` on the PATH.
    #[arg(long, value_name = "NAME", value_enum)]
    peer: Vec<Peer>,
    /// Rounds of each part; the medians are told.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: Option<u32>,
    /// Also write everything to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also draw throughput and latency over the number of runs at once, as PNG.
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Where data directories are made: on a disk, not in memory. Beside the program, by default.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// A component made from Rust with a workflow `compute` that takes `{"steps": N}`: measured as `rust` in place of the tests' guest.
    #[arg(long, value_name = "FILE")]
    pub(crate) rust_guest: Option<PathBuf>,
    /// What this program runs in processes of its own.
    #[arg(long, hide = true)]
    pub(crate) child: Option<String>,
}

impl Args {
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// The peers that were asked for, with their versions. Ends the program, with exit code 2, where one of them could not be measured.
    pub(crate) fn peers_or_exit(&self) -> Vec<(Peer, String)> {
        let mut peers = Vec::new();
        let beside = self.compares("ts") && (self.wants(Part::Compute) || self.wants(Part::Post));
        if !beside && !self.peer.is_empty() {
            refuse("--peer needs the part `compute` or `post`, and the guest `ts`");
        }
        for &peer in &self.peer {
            match peer.installed() {
                _ if peers.iter().any(|(known, _)| *known == peer) => {}
                Ok(versions) => peers.push((peer, versions)),
                Err(error) => refuse(error),
            }
        }
        peers
    }

    /// Whether this guest is among those that are compared.
    pub(crate) fn compares(&self, guest: &str) -> bool {
        self.guest.is_empty() || self.guest.iter().any(|name| name == guest)
    }
}

/// Ends the program as wrong arguments do.
fn refuse(why: impl std::fmt::Display) -> ! {
    Args::command().error(ErrorKind::ValueValidation, why).exit()
}

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Steps that only compute, at several numbers of runs at once.
    Compute,
    /// Steps that post to a server.
    Post,
    /// Runs of one step, from their start to their end.
    Short,
    /// What sleeping runs take of memory.
    Sleeping,
    /// Replaying runs of many steps.
    Replay,
    /// Taking up very many runs after a restart.
    Restart,
    /// The binary: its size, cold start, idle memory, the time of a build.
    Binary,
}

impl Part {
    pub(crate) const ALL: [Self; 7] =
        [Self::Compute, Self::Post, Self::Short, Self::Sleeping, Self::Replay, Self::Restart, Self::Binary];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Post => "post",
            Self::Short => "short",
            Self::Sleeping => "sleeping",
            Self::Replay => "replay",
            Self::Restart => "restart",
            Self::Binary => "binary",
        }
    }
}
