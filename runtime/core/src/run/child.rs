//! `start-run`: workflow code starts a child run. The child is there by the commit that records it, so it is started exactly once; what
//! became of it comes back as a reply.

use super::errand::Errand;
use super::machine::{Machine, Output};
use super::replay::Came;
use super::state::{Op, OpKind};
use super::step::check_name;
use crate::contract::{Operation, ParentClose, RunOptions};
use crate::error::{Code, Error};
use crate::fault::{Fault, planted};
use crate::ids::RunId;
use crate::journal::entry::{ChildBegun, Record};
use crate::json::Json;
use crate::limits;
use crate::policy::idempotency;

impl Machine {
    /// Starts a child run of that workflow.
    ///
    /// # Errors
    /// Refused in a body's turn, with a value out of range, with too many operations open or too many runs above it.
    pub fn start_run(
        &mut self,
        workflow: &str,
        input: Json,
        options: RunOptions,
        now_ms: u64,
    ) -> Result<Operation, Error> {
        self.may_begin("a child run", workflow)?;
        check_name("workflow", workflow)?;
        self.check_child(workflow, &input, &options)?;
        let replayed = self.replayed(Came::Child { workflow, input: &input })?;
        if let Some(op) = replayed.filter(|_| !planted(Fault::StartAgain)) {
            self.guest.count_begun(op);
            return Ok(op);
        }
        let RunOptions { run_key, detached, on_parent_close, tags } = options;
        let op = replayed.unwrap_or(self.state.ops.len() as Operation);
        let child = Box::new(ChildBegun {
            op,
            run: RunId::derived(self.run_id(), &op.to_string(), now_ms.max(self.state.at_ms)),
            workflow: workflow.to_owned(),
            input,
            detached,
            abandoned: on_parent_close == ParentClose::Abandon,
            run_key,
            tags,
        });
        match replayed {
            None => self.begun(now_ms, op, Record::ChildBegun(child.clone())),
            Some(_) => self.guest.count_begun(op),
        }
        self.outputs.push(Output::Errand(Errand::Start(child)));
        Ok(op)
    }

    fn check_child(&self, workflow: &str, input: &Json, options: &RunOptions) -> Result<(), Error> {
        let refused = |code, text: String| {
            Err(Error::new(code, format!("the child run of {workflow:?}: {text}")).never_retried())
        };
        if input.len() > limits::MAX_VALUE_BYTES {
            let (len, max) = (input.len(), limits::MAX_VALUE_BYTES);
            let text = format!("its input has {len} bytes of JSON; at most {max} can be recorded");
            return refused(Code::ResultTooLarge, text);
        }
        if let Some(Err(error)) = options.run_key.as_deref().map(idempotency::check_key) {
            return refused(Code::InvalidArgument, format!("its run key: {error}"));
        }
        let (max, tags) = (limits::MAX_NAME_BYTES, &options.tags);
        let fits = |text: &str| (1..=max).contains(&text.len()) && !text.chars().any(char::is_control);
        let twice = |name: &str| tags.iter().filter(|(other, _)| other == name).count() > 1;
        if tags.len() > limits::MAX_TAGS || !tags.iter().all(|(name, value)| fits(name) && fits(value) && !twice(name))
        {
            let text = format!(
                "its tags: at most {}, each name once; name and value have 1 to {max} bytes, no control characters",
                limits::MAX_TAGS
            );
            return refused(Code::InvalidArgument, text);
        }
        let depth = self.depth();
        if depth >= limits::MAX_CHILD_DEPTH {
            return refused(Code::TooManyOperations, format!("{depth} runs stand above this one, and no more may"));
        }
        Ok(())
    }

    /// How many runs stand above this one.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.state.started.parent.as_ref().map_or(0, |parent| parent.depth)
    }

    /// The child of an operation.
    #[must_use]
    pub fn child(&self, op: Operation) -> Option<&ChildBegun> {
        match &self.state.ops.get(op as usize)?.kind {
            OpKind::Child(child) => Some(child),
            _ => None,
        }
    }

    /// Whether the run has started any other.
    #[must_use]
    pub fn has_children(&self) -> bool {
        self.state.ops.iter().any(|op| matches!(op.kind, OpKind::Child(_)))
    }

    /// Whether the workflow waits for the end of that child, and it goes down with its parent.
    pub(super) fn is_awaited_child(&self, op: Operation) -> bool {
        let waits = |op: &Op| op.is_open() && op.outcome.is_none();
        let child = |op: &Op| matches!(&op.kind, OpKind::Child(child) if !child.detached && !child.abandoned);
        self.state.ops.get(op as usize).is_some_and(|op| waits(op) && child(op))
    }

    /// The children that a request to cancel takes down too: the workflow's operations on them fail by it.
    pub(super) fn children_given_up(&self) -> Vec<Operation> {
        if planted(Fault::CancelLeavesChild) {
            return Vec::new();
        }
        (0..self.state.ops.len() as Operation).filter(|op| self.is_awaited_child(*op)).collect()
    }

    pub(super) fn cancel_child(&mut self, op: Operation) {
        self.outputs.push(Output::Errand(Errand::Cancel { op }));
    }
}
