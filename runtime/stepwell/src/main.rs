//! The `stepwell` binary. What it does is in `cli`, one file a command, and in `api`, one file a resource; what runs is behind the engine's public functions.

mod api;
mod cli;
mod trace;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
