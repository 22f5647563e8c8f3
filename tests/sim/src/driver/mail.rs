//! What comes for the run, and what it does to others: on the database of both, by the commit that has it.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use stepwell_core::contract::Operation;
use stepwell_core::error::{Code, Error};
use stepwell_core::journal::entry::{ChildBegun, Record, Reply, RunOutcome};
use stepwell_core::json::Json;
use stepwell_core::run::{Continue, Errand, Input};

use super::Driver;

/// Something that comes for the run.
#[derive(Debug, Clone)]
pub(crate) enum Mail {
    /// An event of that name.
    Event(&'static str),
    /// What became of an operation on another run.
    Reply(Operation, Reply),
}

impl Mail {
    /// An event of one of the names that programs know.
    pub(super) fn of(name: &str) -> Self {
        let known = ["paid", "shipped", "x"].into_iter().find(|known| *known == name);
        Self::Event(known.unwrap_or("unknown"))
    }
}

/// What the database has of other runs, and what is under way between them and this one.
#[derive(Debug, Clone, Default)]
pub(super) struct Others {
    /// What has come for the run, in order. A number is a place, from 1.
    pub(super) inbox: Vec<Mail>,
    pub(super) given: u64,
    /// What is on its way: when it comes, and what.
    pub(super) post: BTreeMap<(u64, usize), Mail>,
    pub(super) posted: usize,
    /// What is to be done on other runs, and the number of entries with which it is durable.
    pub(super) errands: Vec<(usize, Errand)>,
    /// How often each operation on another run was done.
    pub(super) done: BTreeMap<Operation, u32>,
    /// Children that were started and are awaited.
    pub(super) children: BTreeSet<Operation>,
    /// How often each child was asked to cancel.
    pub(super) cancelled: BTreeMap<Operation, u32>,
    /// The run that goes on.
    pub(super) next: Option<Continue>,
}

impl Others {
    /// With what comes from outside, and when.
    pub(super) fn new(post: BTreeMap<(u64, usize), Mail>) -> Self {
        Self { posted: post.len(), post, ..Self::default() }
    }
}

impl Driver {
    /// Gives the machine what has come until now. Whether there was anything.
    pub(super) fn mail(&mut self, now_ms: u64) -> bool {
        while let Some(entry) = self.others.post.first_entry().filter(|entry| entry.key().0 <= now_ms) {
            self.others.inbox.push(entry.remove());
        }
        let mut came = false;
        while let Some(mail) = self.others.inbox.get(self.others.given as usize).cloned() {
            came = true;
            self.others.given += 1;
            let id = self.others.given;
            self.handle(match mail {
                Mail::Event(name) => {
                    // It is a number in braces.
                    let payload = Json::parse(&format!("{{\"event\":{id}}}")).unwrap_or_else(|_| Json::null());
                    Input::Event { id, name: name.to_owned(), payload }
                }
                Mail::Reply(op, reply) => Input::Reply { id, op, reply },
            });
        }
        came
    }

    /// When something comes next, in ms since the Unix epoch.
    pub(super) fn next_mail_ms(&self) -> Option<u64> {
        let came = (self.others.inbox.len() as u64 > self.others.given).then_some(0);
        came.or_else(|| self.others.post.first_key_value().map(|((at_ms, _), _)| *at_ms))
    }

    /// Something is on its way.
    pub(super) fn post(&mut self, at_ms: u64, mail: Mail) {
        self.others.posted += 1;
        self.others.post.insert((at_ms, self.others.posted), mail);
    }

    /// Does what durable entries say of other runs, in their order.
    pub(super) fn run_errands(&mut self) {
        let durable = self.store.durable().len();
        let due = self.others.errands.extract_if(.., |(entries, _)| *entries <= durable).collect::<Vec<_>>();
        for (_, errand) in due {
            match errand {
                Errand::Send { op, .. } => {
                    *self.others.done.entry(op).or_insert(0) += 1;
                    let reply = if self.rng.random_bool(0.8) { Ok(Json::null()) } else { Err(gone()) };
                    // It is there by the same commit; the run may hear of it later.
                    self.reply(self.now(), op, reply);
                }
                Errand::Start(child) | Errand::StartAgain(child) => self.start_child(&child),
                Errand::Cancel { op } => self.cancel_child(op),
                Errand::Continue(next) => self.others.next = Some(*next),
                _ => {}
            }
        }
    }

    fn start_child(&mut self, child: &ChildBegun) {
        let (op, now_ms) = (child.op, self.now());
        *self.others.done.entry(op).or_insert(0) += 1;
        if self.rng.random_bool(0.1) {
            self.reply(now_ms, op, Err(Error::new(Code::RunKeyConflict, "it is taken").never_retried()));
        } else if child.detached {
            self.reply(now_ms, op, Ok(Json::null()));
        } else {
            let takes_ms = self.host.borrow().takes.get(&op).copied().unwrap_or(0);
            let failed = Error::new(Code::StepFailed, "the child failed").never_retried();
            let ends = if self.rng.random_bool(0.7) { Ok(Json::null()) } else { Err(failed) };
            self.others.children.insert(op);
            self.reply(now_ms + takes_ms, op, ends);
        }
    }

    /// The run has failed, and its children are asked to cancel: some still come to a result.
    pub(super) fn children_of_the_failed(&mut self) {
        for op in self.ledger.children_asked_at_end() {
            if self.rng.random_bool(0.8) {
                self.end_child(op);
            }
        }
    }

    /// It ends sooner, unless it has ended already.
    fn cancel_child(&mut self, op: Operation) {
        *self.others.cancelled.entry(op).or_insert(0) += 1;
        self.end_child(op);
    }

    fn end_child(&mut self, op: Operation) {
        let of_child = |mail: &Mail| matches!(mail, Mail::Reply(of, _) if *of == op);
        if let Some(at) = self.others.post.iter().find(|(_, mail)| of_child(mail)).map(|(at, _)| *at) {
            self.others.post.remove(&at);
            self.reply(self.now(), op, Err(Error::new(Code::Cancelled, "its parent asked for it").never_retried()));
        }
    }

    fn reply(&mut self, at_ms: u64, op: Operation, reply: Result<Json, Error>) {
        let reply = match reply {
            Ok(value) => Reply::Succeeded(value),
            Err(error) => Reply::Failed(error),
        };
        self.post(at_ms, Mail::Reply(op, reply));
    }

    /// A crash loses what was not durable, and what would have been done with it.
    pub(super) fn lose_errands(&mut self) {
        self.run_errands();
        self.others.errands.clear();
    }

    /// Whatever the journal has of other runs was done, once, and nothing else.
    pub(super) fn check_errands(&self) -> Result<(), String> {
        let mut begun = BTreeMap::<Operation, u32>::new();
        for (seq, bytes) in (0..).zip(self.store.entries()) {
            let entry = stepwell_core::journal::codec::decode(seq, bytes).map_err(|error| error.to_string())?;
            let op = match entry.record {
                Record::SendBegun { op, .. } => op,
                Record::ChildBegun(child) => child.op,
                Record::ChildBegunAgain { op, .. } => op,
                Record::Ended { outcome: RunOutcome::Continued(run), .. } => {
                    if self.others.next.as_ref().is_none_or(|next| next.run != run) {
                        return Err(format!("run {run} goes on, and was not started"));
                    }
                    continue;
                }
                _ => continue,
            };
            *begun.entry(op).or_insert(0) += 1;
        }
        if begun == self.others.done {
            return Ok(());
        }
        Err(format!(
            "what is done on other runs: {begun:?} by the journal, and it was done {:?} times",
            self.others.done
        ))
    }
}

fn gone() -> Error {
    Error::new(Code::RunEnded, "run run_2 has ended").never_retried()
}
