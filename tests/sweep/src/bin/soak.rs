//! The soak: the real engine under load is killed with SIGKILL over and over, with many runs under way. Nothing may be lost or
//! stuck, and each effect's promise is kept.
//!
//! `cargo run -p stepwell-sweep --bin soak` kills 200 times with 200 runs under way. The program is its own victim.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use stepwell_sweep::soak::{self, Plan};

/// Kills Stepwell under load, and says whether it kept its promises.
#[derive(Debug, Parser)]
struct Args {
    /// How often to kill.
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Runs that are under way at any time.
    #[arg(long, default_value_t = 200)]
    runs: usize,
    /// Decides when to kill and what the other side does wrong.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(subcommand)]
    victim: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Drives runs until it is killed; with no runs to keep under way, until all have ended.
    #[command(hide = true)]
    Victim {
        /// The data directory.
        dir: PathBuf,
        /// The module.
        module: PathBuf,
        /// The other side.
        url: String,
        /// Runs to keep under way.
        runs: usize,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.victim {
        Some(Command::Victim { dir, module, url, runs }) => {
            soak::victim::live(&dir, &module, &url, runs).map(|()| true)
        }
        None => soak::run(&Plan { kills: args.kills, runs: args.runs, seed: args.seed }).map(|verdict| {
            anstream::println!("{verdict}");
            verdict.holds()
        }),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            anstream::eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}
