//! The simulator: random programs on the run's state machine, with a virtual clock, a store that fails and a world that lies in
//! wait. No WebAssembly, no disk, no threads: a seed decides everything, and a failing seed fails again.
//!
//! ```text
//!   seed ─> generate ─> Program ─> guest (interpreter) ─┐ commands
//!                                                       v
//!           store <── appends ── driver ──────────> Machine
//!           world <── sends ──── driver    every entry and send ──> ledger (invariants)
//! ```

pub mod body;
pub mod driver;
pub mod executor;
pub mod generate;
pub mod guest;
pub mod host;
pub mod invariants;
pub mod program;
pub mod replay;
pub mod report;
pub mod step;
pub mod store;
pub mod truth;
pub mod workflow;
pub mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a seed that held went through.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Entries of the final journal.
    pub entries: u64,
    /// Crashes of the host.
    pub crashes: u64,
    /// Requests that left.
    pub sends: u64,
    /// Whether the run was blocked by unknown steps at last, and not ended.
    pub blocked: bool,
    /// Instances dropped while the run waited.
    pub parks: u64,
    /// What people asked and were granted.
    pub asks: u64,
    /// Steps that a person resolved.
    pub resolved: u64,
    /// Failed runs that were taken up again.
    pub retried: u64,
    /// Restorations from a copy.
    pub restored: u64,
    /// Runs that were rerun.
    pub reran: u64,
    /// Instances taken down by a body.
    pub rebuilds: u64,
}

/// A seed that did not hold.
#[derive(Debug, Clone)]
pub struct Failure {
    /// By which it is found again.
    pub seed: u64,
    /// What did not hold, in a line.
    pub invariant: String,
    /// The program, the journal and what the world saw.
    pub detail: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "seed {}: {}\n(again, alone: STEPWELL_SEED={})\n{}",
            self.seed, self.invariant, self.seed, self.detail
        )
    }
}

/// Runs a seed to its end.
///
/// # Errors
/// The first invariant that does not hold; a panic counts as one.
pub fn run_seed(seed: u64) -> Result<Stats, Box<Failure>> {
    catch_unwind(AssertUnwindSafe(|| driver::run(seed))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
        Err(Box::new(Failure { seed, invariant: format!("panic: {text}"), detail: String::new() }))
    })
}
