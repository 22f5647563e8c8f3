//! Every bound of a run, by name. Times are milliseconds, sizes bytes.
//!
//! A bound that an operator may change is a field of the engine's settings with its default here.

/// Input, step result, event, error details: JSON text.
pub const MAX_VALUE_BYTES: usize = 2 << 20;
/// A name: of a step, an event, a workflow, an error's type.
pub const MAX_NAME_BYTES: usize = 200;
/// An error's message.
pub const MAX_ERROR_MESSAGE_BYTES: usize = 8 << 10;
/// The length of an error's chain of causes.
pub const MAX_ERROR_CAUSES: usize = 16;
/// A key as it goes over the wire, and a run key.
pub const MAX_KEY_CHARS: usize = 255;
/// A run's journal, in entries.
pub const MAX_JOURNAL_ENTRIES: usize = 50_000;
/// A run's journal, in bytes.
pub const MAX_JOURNAL_BYTES: usize = 64 << 20;
/// Operations of a run that are open at once.
pub const MAX_OPEN_OPERATIONS: usize = 10_000;
/// Runs that stand above a child.
pub const MAX_CHILD_DEPTH: u32 = 32;
/// Tags of a run.
pub const MAX_TAGS: usize = 32;
/// Requests and delays of one attempt that are open at once.
pub const MAX_OPEN_EXCHANGES: usize = 1_000;
/// A sleep: ten years of 365.25 days.
pub const MAX_SLEEP_MS: u64 = 315_576_000_000;
/// A step's time-out.
pub const MAX_STEP_TIMEOUT_MS: u64 = 86_400_000;
/// A step's time-out where neither it nor its workflow names one, so that no attempt hangs for ever.
pub const DEFAULT_STEP_TIMEOUT_MS: u64 = 600_000;
/// How long a key is known to the other side, from its first send, where the step does not say.
pub const DEFAULT_KEY_TTL_MS: u64 = 86_400_000;
/// Recoveries of a run without progress before it is set aside.
pub const MAX_RECOVERIES: u32 = 10;
/// Attempts of a step in one epoch: more than a run's journal has room for. Their numbers in the n-th epoch after the first begin above
/// n times as many.
pub const ATTEMPTS_PER_EPOCH: u32 = 100_000;
/// Memory of an instance, all of its linear memories together.
pub const MAX_INSTANCE_MEMORY_BYTES: usize = 128 << 20;
/// Table elements of an instance, all of its tables together.
pub const MAX_INSTANCE_TABLE_ELEMENTS: usize = 1_000_000;
/// Linear memory of all live instances together: beyond it no further one comes to life. Of an image that instances share, only
/// what each has changed is resident.
pub const MAX_TOTAL_MEMORY_BYTES: usize = 4 << 30;
/// Computing time of one turn of workflow code.
pub const WORKFLOW_TURN_BUDGET_MS: u64 = 10_000;
/// Computing time of one turn of a step's body.
pub const BODY_TURN_BUDGET_MS: u64 = 60_000;
/// The answer of an unsafe request that is kept in the journal.
pub const MAX_RECORDED_ANSWER_BYTES: usize = 256 << 10;
/// The body of an answer that is given to the guest.
pub const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// The body of a request.
pub const MAX_REQUEST_BYTES: usize = 16 << 20;
/// Bodies of a run's requests that are open at once: until they are over they are in memory.
pub const MAX_OPEN_REQUEST_BYTES: usize = 64 << 20;
/// A URL.
pub const MAX_URL_BYTES: usize = 8 << 10;
/// A line of the run's log; what is longer is cut.
pub const MAX_LOG_LINE_BYTES: usize = 64 << 10;
/// Lines that one turn of workflow code, or one attempt, may log; further ones are left out with a word about it.
pub const MAX_TURN_LOG_LINES: usize = 10_000;
/// Text and data of these lines.
pub const MAX_TURN_LOG_BYTES: usize = 1 << 20;
/// Lines that a run's workflow code may log, and as many its bodies in one process.
pub const MAX_RUN_LOG_LINES: usize = 100_000;
/// Text and data of these lines.
pub const MAX_RUN_LOG_BYTES: usize = 64 << 20;
/// A run's status text.
pub const MAX_STATUS_BYTES: usize = 1 << 10;
/// A module, as it is uploaded.
pub const MAX_MODULE_BYTES: usize = 64 << 20;
/// Modules that are compiled at the same time; each uses as many threads as the machine has cores.
pub const MAX_CONCURRENT_COMPILATIONS: usize = 1;
/// How long a module may take to compile, in ms, and how long it waits for others before that.
pub const MAX_COMPILE_MS: u64 = 60_000;
/// Workflows of a module.
pub const MAX_WORKFLOWS: usize = 1_000;
/// Destinations of a workflow, and secrets.
pub const MAX_DECLARED: usize = 1_000;
