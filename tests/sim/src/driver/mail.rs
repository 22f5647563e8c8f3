//! What comes for the run, and what it does to others: on the database of both, by the commit that has it.

use rand::Rng;
use stepwell_core::contract::Operation;
use stepwell_core::error::{Code, Error};
use stepwell_core::journal::entry::{Record, Reply};
use stepwell_core::json::Json;
use stepwell_core::run::{Errand, Input};

use super::Driver;

/// Something that comes for the run.
#[derive(Debug, Clone)]
pub(crate) enum Mail {
    /// An event of that name.
    Event(&'static str),
    /// What became of an operation on another run.
    Reply(Operation, Reply),
}

impl Driver {
    /// Gives the machine what has come until now. Whether there was anything.
    pub(super) fn mail(&mut self, now_ms: u64) -> bool {
        while let Some(entry) = self.post.first_entry().filter(|entry| entry.key().0 <= now_ms) {
            self.inbox.push(entry.remove());
        }
        let mut came = false;
        while let Some(mail) = self.inbox.get(self.given as usize).cloned() {
            came = true;
            self.given += 1;
            let id = self.given;
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
        let came = (self.inbox.len() as u64 > self.given).then_some(0);
        came.or_else(|| self.post.first_key_value().map(|((at_ms, _), _)| *at_ms))
    }

    /// Something is on its way.
    pub(super) fn post(&mut self, at_ms: u64, mail: Mail) {
        self.posted += 1;
        self.post.insert((at_ms, self.posted), mail);
    }

    /// Does what durable entries say of other runs, in their order.
    pub(super) fn run_errands(&mut self) {
        let durable = self.store.durable().len();
        let due = self.errands.extract_if(.., |(entries, _)| *entries <= durable).collect::<Vec<_>>();
        for (_, errand) in due {
            let Errand::Send { op, .. } = errand else { continue };
            *self.done.entry(op).or_insert(0) += 1;
            let reply = if self.rng.random_bool(0.8) {
                Reply::Succeeded(Json::null())
            } else {
                Reply::Failed(Error::new(Code::RunEnded, "run run_2 has ended").never_retried())
            };
            // It is there by the same commit; the run may hear of it later.
            self.post(self.now(), Mail::Reply(op, reply));
        }
    }

    /// A crash loses what was not durable, and what would have been done with it.
    pub(super) fn lose_errands(&mut self) {
        self.run_errands();
        self.errands.clear();
    }

    /// Whatever the journal has of other runs was done, once, and nothing else.
    pub(super) fn check_errands(&self) -> Result<(), String> {
        let mut begun = 0;
        for (seq, bytes) in (0..).zip(self.store.entries()) {
            let entry = stepwell_core::journal::codec::decode(seq, bytes).map_err(|error| error.to_string())?;
            if let Record::SendBegun { op, .. } = entry.record {
                begun += 1;
                let times = self.done.get(&op).copied().unwrap_or(0);
                if times != 1 {
                    return Err(format!("the event of operation {op} was sent {times} times"));
                }
            }
        }
        if begun == self.done.len() { Ok(()) } else { Err(format!("more was done than is recorded: {:?}", self.done)) }
    }
}
