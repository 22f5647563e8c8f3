//! The `stepwell` binary. What it does is in `cli`, one file a command, and in `api`, one file a resource; what runs is behind the engine's public functions.

mod api;
mod cli;

use std::process::ExitCode;

/// Entries of journals are made on the threads of runs and dropped on that of the writer, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
