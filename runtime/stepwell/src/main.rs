//! The `stepwell` binary. What it does is in `cli`, one file a command, and in `api`, one file a resource; what runs is behind the engine's public functions.

mod api;
mod cli;
mod trace;

use std::process::ExitCode;

/// Entries of journals are made on the threads of runs and dropped on that of the writer, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Gives back what the allocator keeps for the calling thread, and what it keeps for all of them.
#[allow(unsafe_code)]
fn give_back() {
    // SAFETY: it may be called on any thread and at any time, and touches nothing that is in use.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

fn main() -> ExitCode {
    cli::main()
}
