//! The guest's contract (`guest-sdk/wit/workflow.wit`) as plain Rust data: what a guest asks of the host, and what it is told.
//!
//! Types only. What is done with them is the machine's; how they cross the border is the host's.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::json::Json;

/// An open operation of a run, numbered from 0 in the order of the commands.
pub type Operation = u32;

/// A request or delay of an attempt, numbered within an invocation.
pub type Exchange = u32;

/// One attempt of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptRef {
    /// The step's operation.
    pub operation: Operation,
    /// From 1, and only growing.
    pub number: u32,
}

/// A retry policy as written: what is left out keeps the default. The ranges are in `policy::retry`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryFields {
    /// Attempts in all, the first included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Delay before the second attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_ms: Option<u64>,
    /// Longest delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<u64>,
    /// Growth per attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<f64>,
    /// The share of the delay that is random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
}

/// What a repetition of the step's body would do to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Reads and idempotent writes.
    #[default]
    Repeatable,
    /// Writes that the other side deduplicates by key.
    Keyed,
    /// Writes that must not happen twice.
    Once,
}

/// Options of a step, as the guest gives them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepOptions {
    /// Overrides the workflow's default field by field.
    pub retry: RetryFields,
    /// How long an attempt may take.
    pub timeout_ms: Option<u64>,
    /// The effect class.
    pub effect: Option<EffectClass>,
    /// How long the other side knows a key, from its first send.
    pub key_ttl_ms: Option<u64>,
    /// The same operation across runs.
    pub operation_key: Option<String>,
    /// The guest can run a read-only body that finds out what became of an unknown outcome.
    pub reconciles: bool,
    /// A person's approval is needed. Not offered yet.
    pub approval: Option<Approval>,
    /// A named amount that the effect reserves. Not offered yet.
    pub reserve: Option<(String, u64)>,
}

/// What a person is asked before the step's body runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The question.
    pub reason: String,
    /// How long it stays open.
    pub expires_ms: Option<u64>,
}

/// What an attempt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptKind {
    /// Do the step's work.
    Execute,
    /// Find out, by reading only, what became of effects whose outcome is unknown.
    Reconcile,
}

/// An effect whose outcome is unknown, as a reconcile attempt is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentEffect {
    /// The request's method.
    pub method: String,
    /// Its URL.
    pub url: String,
    /// The key that it carried.
    pub key: Option<String>,
    /// When it left, in ms since the Unix epoch.
    pub sent_at_ms: u64,
}

/// Run the step's body now, then answer with `step-finish`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Which one.
    pub id: AttemptRef,
    /// What for.
    pub kind: AttemptKind,
    /// `<runId>:<stepId>:<attempt>`
    pub idempotency_key: String,
    /// `<runId>:<stepId>`, or the step's own operation key.
    pub operation_key: String,
    /// In ms since the Unix epoch.
    pub deadline_ms: Option<u64>,
    /// For a reconcile attempt: what left, with unknown outcome.
    pub unknown: Vec<SentEffect>,
}

/// What the request's `Idempotency-Key` header is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectKey {
    /// The effect's own key.
    Effect,
    /// The attempt's.
    Attempt,
    /// The operation's.
    Operation,
    /// No header.
    None,
    /// The caller's own text.
    Custom(String),
}

/// A request of a step's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// In upper case, as the guest gives it.
    pub method: String,
    /// Absolute, `http` or `https`.
    pub url: String,
    /// In order. A value may hold `${secret:NAME}`.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Option<Vec<u8>>,
    /// How long to wait for the whole answer.
    pub timeout_ms: Option<u64>,
    /// The key header.
    pub key: EffectKey,
    /// Tells requests of one body apart, where method and URL do not.
    pub label: Option<String>,
    /// Statuses on which the other side is known to have done nothing.
    pub renew_on: Vec<u16>,
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// In the order received; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// Answered from an earlier attempt's record: nothing was sent.
    pub recorded: bool,
}

/// What came of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A request's answer.
    Response(Response),
    /// A delay is over.
    Elapsed,
}

/// What a guest is told. One event is one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Run a body.
    Attempt(Attempt),
    /// The attempt is closed already: abandon its body.
    Expired(AttemptRef),
    /// An exchange is over.
    Answered(Exchange, Result<Answer, Error>),
    /// An operation is over, well.
    Completed(Operation, Json),
    /// An operation is over, badly.
    Failed(Operation, Error),
    /// The run was asked to cancel.
    Cancelled,
}

/// What becomes of a child run when its parent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentClose {
    /// It is cancelled too.
    Cancel,
    /// It goes on.
    Abandon,
}

/// Options of a child run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// Its run key.
    pub run_key: Option<String>,
    /// The operation completes when the child has started.
    pub detached: bool,
    /// What becomes of it when the parent ends.
    pub on_parent_close: ParentClose,
    /// Its tags.
    pub tags: Vec<(String, String)>,
}

/// The weight of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// For the author alone.
    Trace,
    /// For finding faults.
    Debug,
    /// What happens.
    Info,
    /// What should be looked at.
    Warn,
    /// What went wrong.
    Error,
}

/// A workflow, as the module describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// The default of its steps.
    pub retry: RetryFields,
    /// The default of its steps.
    pub step_timeout_ms: Option<u64>,
    /// How long a run may be open.
    pub run_timeout_ms: Option<u64>,
    /// JSON Schema of the input.
    pub input_schema: Option<Json>,
    /// Hosts that its steps talk to, e.g. `api.stripe.com`, `*.example.com:8443`.
    pub destinations: Vec<String>,
    /// Names of the secrets that it uses.
    pub secrets: Vec<String>,
}

/// How far a request got, as far as the wire can tell. The bytes of an answer travel beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Refused, DNS, connect or TLS failure: no byte of the request left.
    NotSent,
    /// Bytes left, no complete answer.
    Sent,
    /// A complete answer with this status.
    Answered(u16),
}
