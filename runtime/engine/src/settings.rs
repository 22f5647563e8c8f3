//! What an operator may set, with the defaults of `stepwell_core::limits`.

use std::path::PathBuf;
use std::time::Duration;

use stepwell_core::limits;
use stepwell_store::Durability;

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where database and compiled modules are.
    pub data_dir: PathBuf,
    /// What a commit withstands.
    pub durability: Durability,
    /// Instances that may live at once. Runs beyond it wait their turn; quiet ones give their place up.
    pub max_live: usize,
    /// Instances in the pool; the others are made on demand.
    pub pool_instances: u32,
    /// Memory of an instance, in bytes.
    pub instance_memory_bytes: usize,
    /// Memory of all live instances together, in bytes. Runs beyond it wait their turn; quiet ones give their memory up.
    pub total_memory_bytes: usize,
    /// Computing time of one turn of workflow code.
    pub workflow_turn: Duration,
    /// Computing time of one turn of a step's body.
    pub body_turn: Duration,
    /// How long a quiet instance is kept for what is known to come. Rebuilding by replay is cheaper than keeping for long.
    pub keep_quiet: Duration,
    /// How long requests under way are waited for when the engine is stopped.
    pub stop_grace: Duration,
    /// Runs are driven. Without this they are only looked at and asked, and go on in another process.
    pub drives: bool,
    /// Sleeps end at once: the run's clock is put forward. For trying workflows out.
    pub skip_sleeps: bool,
}

impl Settings {
    /// The defaults, for a data directory.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            durability: Durability::Disk,
            max_live: 1_000,
            pool_instances: 64,
            instance_memory_bytes: limits::MAX_INSTANCE_MEMORY_BYTES,
            total_memory_bytes: limits::MAX_TOTAL_MEMORY_BYTES,
            workflow_turn: Duration::from_millis(limits::WORKFLOW_TURN_BUDGET_MS),
            body_turn: Duration::from_millis(limits::BODY_TURN_BUDGET_MS),
            keep_quiet: Duration::from_millis(50),
            stop_grace: Duration::from_secs(5),
            drives: true,
            skip_sleeps: false,
        }
    }
}
