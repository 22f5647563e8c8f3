//! The one form in which a failure crosses the guest's border, stands in the journal and reaches a client.
//!
//! Codes are stable strings, `workflows.<what>`, all listed here; each has a page in `docs/errors/`.

use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::limits;

/// Whether a failed attempt may be followed by another. A typed flag, never read from a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retryability {
    /// By the step's policy.
    #[default]
    Retry,
    /// No further attempt.
    Never,
    /// After this many milliseconds, in place of the policy's delay.
    AfterMs(u64),
}

/// One link of an error's chain of causes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The error's type in the guest's language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its message.
    pub message: String,
}

/// A failure, as it is recorded. What a workflow catches is built from this, live and on replay alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// Stable, e.g. `workflows.step_timeout`. A guest may give codes of its own.
    pub code: String,
    /// The error's type in the guest's language, e.g. `PaymentDeclined`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For people: what, where, what to do.
    pub message: String,
    /// Data of the error's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Json>,
    /// Outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Whether another attempt may follow.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retryability: Retryability,
    /// An effect of the step may have happened.
    #[serde(default, skip_serializing_if = "is_default")]
    pub outcome_unknown: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Error {
    /// An error with one of the codes below.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code: code.as_str().to_owned(),
            name: None,
            message: message.into(),
            details: None,
            causes: Vec::new(),
            retryability: Retryability::Retry,
            outcome_unknown: false,
        }
    }

    /// The same error, after which no further attempt is made.
    #[must_use]
    pub fn never_retried(mut self) -> Self {
        self.retryability = Retryability::Never;
        self
    }

    /// Why a run was cancelled, with the error that its cleaning up failed with. The cancel itself is no such error.
    #[must_use]
    pub fn with_failed_cleanup(mut self, error: Self) -> Self {
        if !error.is(Code::Cancelled) && error.code != self.code {
            self.message.push_str(&format!("; its cleaning up failed with {error}"));
            self.causes.push(Cause { name: error.name, message: error.message });
            self.causes.extend(error.causes);
        }
        self.bounded()
    }

    /// Whether this error has that code.
    #[must_use]
    pub fn is(&self, code: Code) -> bool {
        self.code == code.as_str()
    }

    /// The error within the limits: texts cut on a character boundary, causes beyond the limit dropped, details that are too
    /// large left out with a word about it in the message.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let cut = |text: &mut String, max: usize| text.truncate(text.floor_char_boundary(max));
        // Read back, a `null` is no details at all: live and replayed errors must not differ in it.
        self.details = self.details.filter(|details| details.as_str() != "null");
        if self.details.as_ref().is_some_and(|d| d.len() > limits::MAX_VALUE_BYTES) {
            self.details = None;
            cut(&mut self.message, limits::MAX_ERROR_MESSAGE_BYTES - 64);
            self.message.push_str(" (its details were larger than 2 MiB and were left out)");
        }
        cut(&mut self.message, limits::MAX_ERROR_MESSAGE_BYTES);
        cut(&mut self.code, limits::MAX_NAME_BYTES);
        if self.code.is_empty() {
            self.code = Code::StepFailed.as_str().to_owned();
        }
        if let Some(name) = &mut self.name {
            cut(name, limits::MAX_NAME_BYTES);
        }
        self.causes.truncate(limits::MAX_ERROR_CAUSES);
        for cause in &mut self.causes {
            cut(&mut cause.message, limits::MAX_ERROR_MESSAGE_BYTES);
            if let Some(name) = &mut cause.name {
                cut(name, limits::MAX_NAME_BYTES);
            }
        }
        self
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// Every code that Stepwell itself gives.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// All of them, for the test that looks for their pages.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable text.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

codes! {
    /// A step's body failed and gave no code of its own.
    StepFailed = "workflows.step_failed",
    /// The workflow's own code failed and gave no code of its own.
    WorkflowFailed = "workflows.workflow_failed",
    /// An attempt ran past its deadline.
    StepTimeout = "workflows.step_timeout",
    /// A turn used up its budget of computing time.
    TurnTimeout = "workflows.turn_timeout",
    /// The run was open longer than it may be.
    RunTimeout = "workflows.run_timeout",
    /// The run was cancelled, or an operation of a cancelled run.
    Cancelled = "workflows.cancelled",
    /// The run was ended at once.
    Terminated = "workflows.terminated",
    /// The run is paused, and goes on when it is resumed.
    Paused = "workflows.paused",
    /// An awaited event did not come in time.
    WaitTimeout = "workflows.wait_timeout",
    /// Nothing can wake the workflow any more.
    Deadlock = "workflows.deadlock",
    /// The instance that executed the attempt is gone.
    InvocationLost = "workflows.invocation_lost",
    /// The guest's code trapped.
    Trap = "workflows.trap",
    /// The guest used up its stack.
    StackOverflow = "workflows.stack_overflow",
    /// The guest asked for more memory than it may have.
    MemoryLimit = "workflows.memory_limit",
    /// The workflow's code did not do what the journal says it did.
    ReplayMismatch = "workflows.replay_mismatch",
    /// The run's journal cannot be read.
    JournalUnreadable = "workflows.journal_unreadable",
    /// The run was recovered too often without getting further.
    RecoveryLimit = "workflows.recovery_limit",
    /// An operation was begun in the body of a step.
    OperationInsideStep = "workflows.operation_inside_step",
    /// A request was made outside a step's body.
    EffectOutsideStep = "workflows.effect_outside_step",
    /// An answer to an attempt that is closed.
    AttemptClosed = "workflows.attempt_closed",
    /// An operation or attempt that this run does not have.
    UnknownOperation = "workflows.unknown_operation",
    /// A retry policy outside its ranges.
    InvalidPolicy = "workflows.invalid_policy",
    /// A value of the wrong form.
    InvalidArgument = "workflows.invalid_argument",
    /// A value that is larger than it may be.
    ResultTooLarge = "workflows.result_too_large",
    /// Too many operations open at once.
    TooManyOperations = "workflows.too_many_operations",
    /// The journal has grown as far as it may.
    JournalTooLong = "workflows.journal_too_long",
    /// Another request under a key that may have been used.
    IdempotencyKeyReuse = "workflows.idempotency_key_reuse",
    /// It is not known whether an effect happened.
    OutcomeUnknown = "workflows.outcome_unknown",
    /// A destination that the module may not reach.
    DestinationRefused = "workflows.destination_refused",
    /// A secret that does not exist, or that the destination may not have.
    SecretRefused = "workflows.secret_refused",
    /// A request that is not one.
    InvalidRequest = "workflows.invalid_request",
    /// No byte of the request left: refused, DNS, connect or TLS failure.
    ConnectFailed = "workflows.connect_failed",
    /// The request left, the answer did not come or broke off.
    RequestFailed = "workflows.request_failed",
    /// The answer did not come within the request's time-out.
    RequestTimeout = "workflows.request_timeout",
    /// The answer is larger than it may be.
    ResponseTooLarge = "workflows.response_too_large",
    /// A status that the SDK's `ensureOk` turned into an error.
    HttpStatus = "workflows.http_status",
    /// A part of the contract that this host does not offer yet.
    Unsupported = "workflows.unsupported",
    /// A module that is none, or does not fit the contract.
    InvalidModule = "workflows.invalid_module",
    /// The module has no workflow of that name.
    UnknownWorkflow = "workflows.unknown_workflow",
    /// Source that does not build.
    BuildFailed = "workflows.build_failed",
    /// There is no run of that id.
    RunNotFound = "workflows.run_not_found",
    /// The run key that a child was to have belongs to another run.
    RunKeyConflict = "workflows.run_key_conflict",
    /// The other run has ended, and takes no event any more.
    RunEnded = "workflows.run_ended",
    /// A fault of Stepwell's own.
    Internal = "workflows.internal",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_on_a_character_boundary() {
        let mut error = Error::new(Code::StepFailed, "é".repeat(5 << 20));
        error = error.bounded();
        assert!(error.message.len() <= limits::MAX_ERROR_MESSAGE_BYTES);
        assert!(error.message.chars().all(|c| c == 'é'));
    }

    #[test]
    fn codes_are_distinct() {
        let mut texts: Vec<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Code::ALL.len());
    }

    #[test]
    fn any_text_survives_the_record() {
        let mut error = Error::new(Code::StepFailed, "a\u{0}b\u{fffd}");
        error.details = Some(Json::parse("{\"n\":1e400}").unwrap());
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<Error>(&text).unwrap(), error);
    }
}
