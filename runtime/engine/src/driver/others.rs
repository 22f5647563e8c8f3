//! What a run does to others, and what comes back of it. It is in the commit of the entry that says so; whom it concerns is told once
//! that is durable. What nobody is told of, since the process died, is found by the next one: in an inbox, or in a run's row.

use stepwell_core::contract::{Definition, Operation};
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::{ChildBegun, Parent, Record, Reply};
use stepwell_core::json::Json;
use stepwell_core::run::{Continue, Errand, Granted, Input};
use stepwell_store::{Errand as Stored, InboxEvent, Reply as Replied, RunFilter, RunKey, Status, Successor, Ticket};

use super::{Driver, Message};
use crate::ask::{Ask, Said};
use crate::clock::{random, real_now_ms};
use crate::commands::Shared;
use crate::effects::store_error;
use crate::engine::Engine;
use crate::modules::described;
use crate::start::Begun;

/// Whom it concerns what a run has done, once that is durable.
#[derive(Debug, Clone)]
pub(crate) enum Other {
    /// Something has come to the inbox of that run.
    Inbox(RunId),
    /// That run can begin, if it was started.
    Started(RunId),
    /// Children are asked to cancel.
    Children,
    /// The run has ended.
    End,
}

impl Driver {
    /// Puts it into the commit that has what the machine has said so far.
    pub(super) fn errand(&mut self, errand: Errand) {
        match errand {
            Errand::Send { op, to, name, payload } => {
                self.others.push(Other::Inbox(to.clone()));
                self.writing.errand(Stored::Send { op, to, name, payload: payload.to_string() });
            }
            Errand::Start(child) => self.start(*child, false),
            Errand::StartAgain(child) => self.start(*child, true),
            Errand::Cancel { op } => {
                self.others.push(Other::Children);
                self.writing.errand(Stored::Cancel { op });
            }
            Errand::Continue(next) => self.go_on_in(*next),
            other => tracing::error!(run = self.key, ?other, "nobody knows how this is done"),
        }
    }

    fn start(&mut self, child: ChildBegun, again: bool) {
        self.others.push(Other::Started(child.run.clone()));
        let (op, started) = (child.op, self.child(child, again));
        self.writing.errand(started.unwrap_or_else(|error| refused(op, &error)));
    }

    /// A child, as the store is to keep it: of the parent's own module where that has the workflow, else of the active one.
    fn child(&self, child: ChildBegun, again: bool) -> Result<Stored, Error> {
        let (digest, workflow) = self.workflow_of_child(&child.workflow)?;
        let at_ms = real_now_ms();
        let (parent, doubt) = {
            let machine = &self.shared.lock().machine;
            let parent = Parent { run: machine.run_id().clone(), depth: machine.depth() + 1 };
            (parent, machine.doubt_handed_on(at_ms))
        };
        let begun = Begun {
            run: child.run,
            at_ms,
            digest,
            input: child.input,
            run_timeout_ms: workflow.run_timeout_ms,
            run_key: child.run_key,
            tags: child.tags,
            parent: Some(parent),
            continues: None,
            doubt,
            concurrency_key: None,
            priority: 0,
        };
        let (op, run) = (child.op, Box::new(begun.of(&workflow)?));
        Ok(Stored::Start { op, run, awaited: !child.detached, stays: child.abandoned, again })
    }

    fn workflow_of_child(&self, name: &str) -> Result<(Digest, Definition), Error> {
        let own = self.workflows.iter().flat_map(|all| all.iter()).find(|workflow| workflow.name == name);
        if let Some(own) = own {
            return Ok((self.shared.lock().machine.digest().clone(), own.clone()));
        }
        let reads = self.engine.store().read();
        if self.workflows.is_none() {
            // A failed run that is taken up again has no instance yet.
            let digest = self.shared.lock().machine.digest().clone();
            let module = reads.module_row(&digest).map_err(|error| store_error(&error))?;
            if let Some(own) = module.and_then(|module| described(&module.description, name)) {
                return Ok((digest, own));
            }
        }
        let active = reads.active_of(name).map_err(|error| store_error(&error))?;
        let module = match &active {
            Some(active) => reads.module_row(&active.digest).map_err(|error| store_error(&error))?,
            None => None,
        };
        let found = module.and_then(|module| Some((module.digest.clone(), described(&module.description, name)?)));
        found.ok_or_else(|| {
            let text = format!("neither the run's own module nor an active one has a workflow {name:?}");
            Error::new(Code::UnknownWorkflow, text).never_retried()
        })
    }

    /// The run that goes on for this one, with its place.
    fn go_on_in(&mut self, next: Continue) {
        let (begun, name) = {
            let shared = self.shared.lock();
            let machine = &shared.machine;
            let at_ms = real_now_ms();
            let begun = Begun {
                run: next.run.clone(),
                at_ms,
                digest: machine.digest().clone(),
                input: next.input,
                run_timeout_ms: machine.run_timeout_ms(),
                run_key: self.run_key.clone(),
                tags: self.tags.clone(),
                parent: machine.started().parent.clone(),
                continues: Some(machine.run_id().clone()),
                doubt: machine.doubt_handed_on(at_ms),
                // It has the place of the run that it goes on for.
                concurrency_key: None,
                priority: 0,
            };
            (begun, machine.started().workflow.clone())
        };
        let workflow = self.workflows.iter().flat_map(|all| all.iter()).find(|workflow| workflow.name == name);
        // A run has a function that can return, so it has an instance, of a module that has its workflow.
        let Some(run) = workflow.and_then(|workflow| begun.of(workflow).ok()) else {
            tracing::error!(run = self.key, "the run that goes on for it cannot be made");
            return;
        };
        self.others.push(Other::Started(next.run));
        self.writing.successor(Successor { run, events: next.events, seen: next.seen });
    }

    /// Its parent has ended, or waits for it no longer: the same as when a person asks it to cancel.
    pub(crate) fn parent_is_gone(&mut self) {
        self.carry_out();
        let (ask, decided) = {
            let mut shared = self.shared.lock();
            let Shared { machine, clock, .. } = &mut *shared;
            if machine.ended().is_some() {
                return;
            }
            let by = machine.started().parent.as_ref().map_or_else(String::new, |parent| parent.run.to_string());
            let text = format!("run {by}, which started it, has ended or waits for it no longer");
            let reason = Error::new(Code::Cancelled, text).never_retried();
            let decided = machine.cancel(reason.clone(), &by, clock.now_ms(), random());
            (Ask::Cancel { reason, by }, decided)
        };
        if let Ok(granted @ (Granted::Now | Granted::OnResume)) = decided {
            let said = self.as_set_aside(&ask, Said::Granted(granted));
            self.granted(&ask, said.granted());
        }
        self.carry_out();
    }

    /// Tells whom it concerns, this run too, once what was done is durable.
    pub(super) fn tell_others(&mut self, ticket: Ticket) {
        if self.others.is_empty() {
            return;
        }
        let others = std::mem::take(&mut self.others);
        let (engine, own, sender) = (self.engine.clone(), self.key, self.sender.clone());
        tokio::spawn(async move {
            match engine.store().durable(ticket).await {
                Ok(()) => {
                    engine.notice_own(own);
                    others.iter().for_each(|other| engine.tell_other(own, other));
                }
                // A run that is gone goes on from its journal anyway.
                Err(error) => drop(sender.send(Message::StoreFailed(error))),
            }
        });
    }

    /// What came to the inbox, as the machine is told it.
    pub(super) fn input(&self, event: InboxEvent) -> Result<Input, String> {
        let InboxEvent { number: id, name, payload, reply_to } = event;
        let payload = Json::parse(&payload).map_err(|error| error.to_string())?;
        Ok(match reply_to {
            None => Input::Event { id, name, payload },
            Some(op) => {
                let reply = Replied::of(&name).ok_or_else(|| format!("{name:?} is no reply of this version"))?;
                let same = reply == Replied::KeyTaken && self.is_same(op, &text_of(&payload));
                let reply = if same { Reply::Succeeded(payload) } else { replied(reply, payload) };
                Input::Reply { id, op, reply }
            }
        })
    }

    /// Whether the run that has the run key is what the child was to be, and the workflow asked for no more than that it is there.
    fn is_same(&self, op: Operation, holder: &str) -> bool {
        let child = self.shared.lock().machine.child(op).filter(|child| child.detached).cloned();
        let same = |child: ChildBegun| -> Option<bool> {
            let reads = self.engine.store().read();
            let row = reads.run(&RunId::new(holder)).ok()??;
            let first = match &row.links.first {
                Some(first) => reads.run(first).ok()??,
                None => row,
            };
            let (seq, bytes) = reads.entries(first.key, 0, 1).ok()?.into_iter().next()?;
            let Record::Started(started) = codec::decode(seq, &bytes).ok()?.record else { return None };
            Some(started.workflow == child.workflow && started.input.same_value(&child.input))
        };
        child.and_then(same).unwrap_or(false)
    }
}

impl Engine {
    fn tell_other(&self, own: RunKey, other: &Other) {
        match other {
            Other::Inbox(run) => self.notice(run),
            Other::Started(run) => match self.store().read().run(run) {
                Ok(Some(row)) if row.status == Status::Queued => self.begin(row.key),
                Ok(_) => {}
                Err(error) => tracing::error!(%run, %error, "a run that was started could not be taken up"),
            },
            Other::Children => self.notice_children(own),
            Other::End => self.notice_end(own),
        }
    }

    /// A reply may have come with the run's own commit. It may have left meanwhile, to wait for a child that could not be started.
    fn notice_own(&self, run: RunKey) {
        if self.message(run, Message::Inbox) {
            return;
        }
        match self.store().read().run_by_number(run) {
            Ok(Some(row)) => self.notice_inbox(&row),
            Ok(None) => {}
            Err(error) => tracing::error!(run, %error, "the run could not be told what became of what it did"),
        }
    }

    /// Something has come to the inbox of the run of that name, or of the one that goes on for it.
    pub(crate) fn notice(&self, run: &RunId) {
        let row =
            self.store().read().run(run).and_then(|row| match row.as_ref().and_then(|row| row.links.last.clone()) {
                Some(last) => self.store().read().run(&last),
                None => Ok(row),
            });
        match row {
            Ok(Some(row)) => self.notice_inbox(&row),
            Ok(None) => {}
            // It is in its inbox all the same, and is seen when the run is taken up next.
            Err(error) => tracing::error!(%run, %error, "a run could not be told that something has come for it"),
        }
    }

    /// A run has ended: its parent has a reply, its children may be asked to cancel.
    pub(crate) fn notice_end(&self, run: RunKey) {
        match self.store().read().run_by_number(run) {
            Ok(Some(row)) => {
                if let Some((parent, _)) = &row.links.parent {
                    self.notice(parent);
                }
            }
            Ok(None) => {}
            Err(error) => tracing::error!(run, %error, "the run that started this one could not be told of its end"),
        }
        self.notice_children(run);
    }

    /// Children that the run's commit has asked to cancel.
    fn notice_children(&self, run: RunKey) {
        let children = self.store().read().run_by_number(run).and_then(|row| {
            let parent = row.map(|row| row.run);
            let filter = RunFilter { parent: parent.clone(), open: true, limit: u32::MAX, ..RunFilter::default() };
            parent.map_or(Ok(Vec::new()), |_| self.store().read().runs(&filter).map(|list| list.runs))
        });
        match children {
            Ok(children) => {
                for child in children.iter().filter(|child| child.links.cancel) {
                    self.tell(child.key, Message::ParentGone);
                }
            }
            Err(error) => tracing::error!(run, %error, "the children of the run could not be told to cancel"),
        }
    }
}

fn refused(op: Operation, error: &Error) -> Stored {
    Stored::Refuse { op, error: serde_json::to_string(error).unwrap_or_else(|_| "null".to_owned()) }
}

/// What the workflow is told.
fn replied(reply: Replied, payload: Json) -> Reply {
    let failed = |code, text: String| Reply::Failed(Error::new(code, text).never_retried());
    match reply {
        Replied::Done | Replied::Succeeded => Reply::Succeeded(payload),
        Replied::Refused | Replied::Failed | Replied::Cancelled | Replied::Terminated => {
            let error = serde_json::from_str::<Error>(payload.as_str());
            error.map_or_else(
                |error| failed(Code::Internal, format!("an error that cannot be read: {error}")),
                Reply::Failed,
            )
        }
        Replied::NoSuchRun => failed(Code::RunNotFound, format!("there is no run {}", text_of(&payload))),
        Replied::Finished => {
            failed(Code::RunEnded, format!("the run has {}, and takes no event any more", text_of(&payload)))
        }
        Replied::KeyTaken => {
            failed(Code::RunKeyConflict, format!("the run key of the child belongs to run {}", text_of(&payload)))
        }
        Replied::NoSuchModule => {
            failed(Code::InvalidModule, format!("module {} was taken away meanwhile", text_of(&payload)))
        }
        other => failed(Code::Internal, format!("nobody knows the reply {other:?}")),
    }
}

/// A text that is JSON.
fn text_of(json: &Json) -> String {
    match json.to_value() {
        Some(serde_json::Value::String(text)) => text,
        _ => json.to_string(),
    }
}
