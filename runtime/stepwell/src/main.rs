//! The `stepwell` binary. What it does is in `cli`, one file a command; what runs is behind the engine's public functions.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
