//! What an operator may set, with the defaults of `stepwell_core::limits`.

use std::path::PathBuf;
use std::time::Duration;

use stepwell_core::limits;
use stepwell_store::Durability;

use crate::points::Points;

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where database and compiled modules are.
    pub data_dir: PathBuf,
    /// What a commit withstands.
    pub durability: Durability,
    /// How large the database's file may grow, in bytes; beyond that, writes fail as on a full disk. `None` for as large as the disk.
    pub max_database_bytes: Option<u64>,
    /// Instances that may live at once. Runs beyond it wait their turn; quiet ones give their place up.
    pub max_live: usize,
    /// Runs that are rebuilt from their journals at once. Each is counted before it begins, and forgiven once it has come to the end.
    pub rebuilds_at_once: usize,
    /// Instances in the pool; the others are made on demand.
    pub pool_instances: u32,
    /// Memory of an instance, in bytes.
    pub instance_memory_bytes: usize,
    /// Memory of all live instances together, in bytes. Runs beyond it wait their turn; quiet ones give their memory up.
    pub total_memory_bytes: usize,
    /// How long a module may take to compile, once others that came before it are done.
    pub compile_limit: Duration,
    /// Computing time of one turn of workflow code.
    pub workflow_turn: Duration,
    /// Computing time of one turn of a step's body.
    pub body_turn: Duration,
    /// How long a quiet instance is kept for what is known to come. Rebuilding by replay is cheaper than keeping for long.
    pub keep_quiet: Duration,
    /// Entries that a run hands to the store together, while nothing waits for them: a batch costs much more than an entry in it.
    pub together: usize,
    /// How long requests under way are waited for when the engine is stopped.
    pub stop_grace: Duration,
    /// Runs are driven. Without this they are only looked at and asked, and go on in another process.
    pub drives: bool,
    /// Sleeps end at once: the run's clock is put forward. For trying workflows out.
    pub skip_sleeps: bool,
    /// Who looks on at moments of its work: for tests.
    pub points: Points,
}

impl Settings {
    /// The defaults, for a data directory.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            durability: Durability::Disk,
            max_database_bytes: None,
            max_live: 1_000,
            rebuilds_at_once: 8 * std::thread::available_parallelism().map_or(2, usize::from),
            pool_instances: 64,
            instance_memory_bytes: limits::MAX_INSTANCE_MEMORY_BYTES,
            total_memory_bytes: limits::MAX_TOTAL_MEMORY_BYTES,
            compile_limit: Duration::from_millis(limits::MAX_COMPILE_MS),
            workflow_turn: Duration::from_millis(limits::WORKFLOW_TURN_BUDGET_MS),
            body_turn: Duration::from_millis(limits::BODY_TURN_BUDGET_MS),
            keep_quiet: Duration::from_millis(50),
            together: 32,
            stop_grace: Duration::from_secs(5),
            drives: true,
            skip_sleeps: false,
            points: Points::default(),
        }
    }
}
