//! `step-begin`: workflow code begins a step.

use super::machine::Machine;
use super::replay::Came;
use crate::contract::{Operation, StepOptions};
use crate::error::{Code, Error};
use crate::ids::StepId;
use crate::journal::entry::{Record, StepBegun};
use crate::limits;
use crate::policy::timeout;

impl Machine {
    /// Begins a step. Its body is run by an `attempt` event.
    ///
    /// # Errors
    /// Refused, and takes no number: in a body's turn, with a name or option out of range, or with too many operations open.
    pub fn step_begin(&mut self, name: &str, options: &StepOptions, now_ms: u64) -> Result<Operation, Error> {
        self.may_begin("a step", name)?;
        check_name("step", name)?;
        let begun = self.decided(name, options)?;
        if let Some(op) = self.replayed(Came::Step(name))? {
            self.guest.count_begun(op);
            return Ok(op);
        }
        let op = begun.op;
        self.begun(now_ms, op, Record::StepBegun(begun));
        Ok(op)
    }

    /// The step with everything decided that its own options, the workflow's and the host's defaults say.
    fn decided(&self, name: &str, options: &StepOptions) -> Result<StepBegun, Error> {
        let invalid = |text: String| Error::new(Code::InvalidPolicy, format!("step {name:?}: {text}")).never_retried();
        let unsupported = [
            (options.operation_key.is_some(), "operation-key"),
            (options.reconciles, "reconcile"),
            (options.approval.is_some(), "approval"),
            (options.reserve.is_some(), "reserve"),
        ];
        if let Some((_, option)) = unsupported.iter().find(|(given, _)| *given) {
            let text = format!("step {name:?}: the option `{option}` is not offered by this version of Stepwell");
            return Err(Error::new(Code::Unsupported, text).never_retried());
        }
        let started = &self.state.started;
        let retry = started.retry.overridden(&options.retry).map_err(|e| invalid(e.to_string()))?;
        let timeout_ms = timeout::step_timeout_ms(options.timeout_ms, started.step_timeout_ms)
            .map_err(|e| invalid(e.to_string()))?;
        let key_ttl_ms = options.key_ttl_ms.unwrap_or(limits::DEFAULT_KEY_TTL_MS);
        let key_ttl_ms =
            timeout::checked("keyTtlMs", key_ttl_ms, limits::MAX_SLEEP_MS).map_err(|e| invalid(e.to_string()))?;
        let occurrence = self.state.names.get(name).map_or(0, |n| *n) + 1;
        Ok(StepBegun {
            op: self.state.ops.len() as Operation,
            step: StepId { name: name.to_owned(), occurrence },
            retry,
            timeout_ms,
            effect: options.effect.unwrap_or_default(),
            key_ttl_ms,
        })
    }

    /// Whether workflow code may begin an operation now.
    pub(super) fn may_begin(&self, what: &str, name: &str) -> Result<(), Error> {
        if self.in_body() {
            return Err(Error::new(
                Code::OperationInsideStep,
                format!(
                    "{what} ({:?}) cannot begin inside a step's body: the body may be repeated, and its result is all \
                     that is recorded; begin it in the workflow's own code, before or after the step",
                    shown(name)
                ),
            )
            .never_retried());
        }
        if self.is_terminating() {
            return Err(self.gave_up_error());
        }
        if self.guest.continued {
            let text = format!("{what} ({:?}) cannot begin: the run has ended, and another goes on", shown(name));
            return Err(Error::new(Code::InvalidArgument, text).never_retried());
        }
        if self.guest.open >= limits::MAX_OPEN_OPERATIONS {
            let max = limits::MAX_OPEN_OPERATIONS;
            let text =
                format!("{what} ({:?}) cannot begin: {max} operations are open; await some of them first", shown(name));
            return Err(Error::new(Code::TooManyOperations, text).never_retried());
        }
        // Each has an entry, so the run has come to its journal's end. Said here, since code that never waits would go on.
        if self.guest.begun >= limits::MAX_JOURNAL_ENTRIES {
            let max = limits::MAX_JOURNAL_ENTRIES;
            let text = format!("{what} ({:?}) cannot begin: the run has begun {max} operations", shown(name));
            return Err(Error::new(Code::JournalTooLong, text).never_retried());
        }
        Ok(())
    }

    /// Records a new operation that the guest knows of.
    pub(super) fn begun(&mut self, now_ms: u64, op: Operation, record: Record) {
        self.record(now_ms, record);
        self.guest.cursor = self.state.script.len();
        self.guest.count_begun(op);
    }
}

/// Checks the name of a `what`: 1 to 200 bytes without control characters.
///
/// # Errors
/// Says what is wrong with it.
pub fn check_name(what: &str, name: &str) -> Result<(), Error> {
    let problem = if name.is_empty() {
        "is empty".to_owned()
    } else if name.len() > limits::MAX_NAME_BYTES {
        format!("has {} bytes", name.len())
    } else if name.chars().any(char::is_control) {
        "holds a control character".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::new(
        Code::InvalidArgument,
        format!(
            "the {what} name {:?} {problem}; a name has 1 to {} bytes and no control characters",
            shown(name),
            limits::MAX_NAME_BYTES
        ),
    )
    .never_retried())
}

/// The beginning of a name that may be none, and of any length.
fn shown(name: &str) -> String {
    name.chars().take(40).collect()
}
