//! A ledger that dies with its process: a point before and after each commit, and nothing once it is dead.

use std::collections::BTreeSet;

use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::Record;
use stepwell_store::ledger::{Child, Head, LastEntry, Ledger, Rows};
use stepwell_store::queue::QueueRows;
use stepwell_store::{
    Answer, EndedRun, InboxEvent, Link, LogRow, NewEvent, NewModule, NewRun, Reply, Result, RunChange, RunKey,
    Schedule, StoreError, Token,
};

use crate::fate::Fate;

/// Around the ledger on disk.
pub struct Mortal<L> {
    ledger: L,
    fate: Fate,
}

impl<L> Mortal<L> {
    /// A ledger with this fate.
    pub fn new(ledger: L, fate: Fate) -> Self {
        Self { ledger, fate }
    }
}

impl<L: Ledger> Ledger for Mortal<L> {
    type Reads = L::Reads;

    fn transaction(&mut self, work: &mut dyn FnMut(&mut dyn Rows) -> Result<()>) -> Result<()> {
        if self.fate.is_dead() {
            return Err(StoreError::Closed);
        }
        let fate = &self.fate;
        let mut written = String::new();
        self.ledger.transaction(&mut |rows| {
            let mut noted = Noted { rows, kinds: BTreeSet::new(), last: None };
            work(&mut noted)?;
            written = noted.text();
            // Nobody can tell a death here from one just after the commit before; but what happened outside meanwhile differs.
            if fate.pass(&format!("before the commit of {written}")) { Ok(()) } else { Err(StoreError::Closed) }
        })?;
        // Committed, and nobody hears of it.
        if self.fate.pass(&format!("after the commit of {written}")) { Ok(()) } else { Err(StoreError::Closed) }
    }
}

/// Notes what is written.
struct Noted<'a> {
    rows: &'a mut dyn Rows,
    kinds: BTreeSet<&'static str>,
    last: Option<&'static str>,
}

impl Noted<'_> {
    /// By the last entry; what else is in a commit depends on chance.
    fn text(&self) -> String {
        self.last.or_else(|| self.kinds.first().copied()).unwrap_or("nothing").to_owned()
    }
}

/// An entry's kind, in words.
#[must_use]
pub fn kind(entry: &[u8]) -> &'static str {
    match codec::decode(0, entry).map(|entry| entry.record) {
        Ok(Record::Started(_)) => "started",
        Ok(Record::StepBegun(_)) => "step begun",
        Ok(Record::SleepBegun { .. }) => "sleep begun",
        Ok(Record::WaitBegun { .. }) => "wait begun",
        Ok(Record::SendBegun { .. }) => "send begun",
        Ok(Record::ReplyArrived { .. }) => "reply arrived",
        Ok(Record::ChildBegun(_)) => "child begun",
        Ok(Record::ChildBegunAgain { .. }) => "child begun again",
        Ok(Record::ContinuedAsNew { .. }) => "continued as new",
        Ok(Record::Closed { .. }) => "closed",
        Ok(Record::Delivered { .. }) => "delivered",
        Ok(Record::CancelDelivered) => "cancel delivered",
        Ok(Record::AttemptStarted { .. }) => "attempt started",
        Ok(Record::AttemptEnded { .. }) => "attempt ended",
        Ok(Record::Dispatched(_)) => "dispatched",
        Ok(Record::Settled { .. }) => "settled",
        Ok(Record::TimerFired { .. }) => "timer fired",
        Ok(Record::WaitExpired { .. }) => "wait expired",
        Ok(Record::EventArrived { .. }) => "event arrived",
        Ok(Record::CancelRequested { .. }) => "cancel requested",
        Ok(Record::TerminateRequested { .. }) => "terminate requested",
        Ok(Record::Paused { .. }) => "paused",
        Ok(Record::Unpaused { .. }) => "unpaused",
        Ok(Record::Resolved { .. }) => "resolved",
        Ok(Record::Rewound { .. }) => "rewound",
        Ok(Record::Reran(_)) => "reran",
        Ok(Record::Resumed) => "resumed",
        Ok(Record::Repinned { .. }) => "repinned",
        Ok(Record::Restored(_)) => "restored",
        Ok(Record::NothingFollowed { .. }) => "nothing followed",
        Ok(Record::Ended { .. }) => "ended",
        Err(_) => "unreadable",
    }
}

impl Rows for Noted<'_> {
    fn head(&mut self, run: RunKey) -> Result<Option<Head>> {
        self.rows.head(run)
    }
    fn run_by_id(&mut self, run: &RunId) -> Result<Option<RunKey>> {
        self.rows.run_by_id(run)
    }
    fn run_by_run_key(&mut self, run_key: &str) -> Result<Option<(RunId, RunKey)>> {
        self.rows.run_by_run_key(run_key)
    }
    fn add_run(&mut self, run: &NewRun, wake_at_ms: Option<u64>) -> Result<RunKey> {
        self.rows.add_run(run, wake_at_ms)
    }
    fn queue(&mut self) -> &mut dyn QueueRows {
        self.rows.queue()
    }
    fn change_run(
        &mut self,
        run: RunKey,
        change: &RunChange,
        wake_at_ms: Option<u64>,
        last: Option<LastEntry<'_>>,
    ) -> Result<()> {
        self.kinds.insert("a run's status");
        self.rows.change_run(run, change, wake_at_ms, last)
    }
    fn set_unknown(&mut self, run: RunKey, unknown: u32) -> Result<()> {
        self.kinds.insert("a run's status");
        self.rows.set_unknown(run, unknown)
    }
    fn add_entries(&mut self, run: RunKey, first_seq: u64, entries: &[Vec<u8>]) -> Result<()> {
        self.last = entries.last().map(|entry| kind(entry)).or(self.last);
        self.rows.add_entries(run, first_seq, entries)
    }
    fn add_part(&mut self, run: RunKey, seq: u64, number: u32, bytes: &[u8]) -> Result<()> {
        self.kinds.insert("a part of an entry");
        self.rows.add_part(run, seq, number, bytes)
    }
    fn forget_parts(&mut self, run: RunKey, from: u64) -> Result<()> {
        self.rows.forget_parts(run, from)
    }
    fn add_entry_in_parts(&mut self, run: RunKey, seq: u64, entry: &[u8]) -> Result<()> {
        self.last = Some(kind(entry));
        self.rows.add_entry_in_parts(run, seq, entry)
    }
    fn add_log(&mut self, run: RunKey, row: &LogRow) -> Result<()> {
        self.kinds.insert("a line of a log");
        self.rows.add_log(run, row)
    }
    fn add_timer(&mut self, due_ms: u64, run: RunKey) -> Result<()> {
        self.rows.add_timer(due_ms, run)
    }
    fn remove_timer(&mut self, due_ms: u64, run: RunKey) -> Result<()> {
        self.rows.remove_timer(due_ms, run)
    }
    fn last_event(&mut self, run: RunKey) -> Result<u64> {
        self.rows.last_event(run)
    }
    fn event_by_dedup(&mut self, run: RunKey, dedup: &str) -> Result<Option<InboxEvent>> {
        self.rows.event_by_dedup(run, dedup)
    }
    fn add_event(&mut self, number: u64, event: &NewEvent) -> Result<()> {
        self.kinds.insert("an event");
        self.rows.add_event(number, event)
    }
    fn add_reply(&mut self, run: RunKey, number: u64, op: u32, reply: Reply, payload: &str) -> Result<()> {
        self.kinds.insert("a reply");
        self.rows.add_reply(run, number, op, reply, payload)
    }
    fn events_left(&mut self, run: RunKey, numbers: &[u64], seen: u64) -> Result<Vec<NewEvent>> {
        self.rows.events_left(run, numbers, seen)
    }
    fn link(&mut self, run: RunKey) -> Result<Link> {
        self.rows.link(run)
    }
    fn put_link(&mut self, run: RunKey, link: &Link) -> Result<()> {
        self.rows.put_link(run, link)
    }
    fn last_after(&mut self, first: RunKey) -> Result<Option<RunKey>> {
        self.rows.last_after(first)
    }
    fn open_children(&mut self, run: RunKey) -> Result<Vec<RunKey>> {
        self.rows.open_children(run)
    }
    fn children(&mut self, run: RunKey) -> Result<Vec<Child>> {
        self.rows.children(run)
    }
    fn release_run_key(&mut self, run: RunKey) -> Result<()> {
        self.rows.release_run_key(run)
    }
    fn add_module(&mut self, module: &NewModule) -> Result<bool> {
        self.kinds.insert("a module");
        self.rows.add_module(module)
    }
    fn add_tag(&mut self, run: RunKey, name: &str, value: &str) -> Result<()> {
        self.rows.add_tag(run, name, value)
    }
    fn has_module(&mut self, digest: &Digest) -> Result<bool> {
        self.rows.has_module(digest)
    }
    fn workflow_on(&mut self, digest: &Digest) -> Result<Option<String>> {
        self.rows.workflow_on(digest)
    }
    fn runs_on(&mut self, digest: &Digest) -> Result<u64> {
        self.rows.runs_on(digest)
    }
    fn remove_module(&mut self, digest: &Digest) -> Result<()> {
        self.rows.remove_module(digest)
    }
    fn active(&mut self, workflow: &str) -> Result<Option<Digest>> {
        self.rows.active(workflow)
    }
    fn activate(&mut self, workflow: &str, digest: &Digest, at_ms: u64) -> Result<()> {
        self.rows.activate(workflow, digest, at_ms)
    }
    fn answer(&mut self, key: &str) -> Result<Option<Answer>> {
        self.rows.answer(key)
    }
    fn put_answer(&mut self, answer: &Answer) -> Result<()> {
        self.rows.put_answer(answer)
    }
    fn forget_answers(&mut self, before_ms: u64, most: u32) -> Result<bool> {
        self.rows.forget_answers(before_ms, most)
    }
    fn hold(&mut self, run: RunKey, key: &str) -> Result<()> {
        self.rows.hold(run, key)
    }
    fn ended(&mut self, run: RunKey) -> Result<Option<EndedRun>> {
        self.rows.ended(run)
    }
    fn forget_run(&mut self, run: RunKey) -> Result<()> {
        self.rows.forget_run(run)
    }
    fn forget_rows(&mut self, most: u32) -> Result<bool> {
        self.rows.forget_rows(most)
    }
    fn try_writing(&mut self) -> Result<()> {
        self.rows.try_writing()
    }
    fn token(&mut self, id: &str) -> Result<Option<Token>> {
        self.rows.token(id)
    }
    fn tokens(&mut self) -> Result<Vec<Token>> {
        self.rows.tokens()
    }
    fn add_token(&mut self, token: &Token) -> Result<()> {
        self.rows.add_token(token)
    }
    fn schedule_version(&mut self, name: &str) -> Result<Option<u64>> {
        self.rows.schedule_version(name)
    }
    fn put_schedule(&mut self, schedule: &Schedule) -> Result<()> {
        self.rows.put_schedule(schedule)
    }
    fn remove_schedule(&mut self, name: &str) -> Result<()> {
        self.rows.remove_schedule(name)
    }
    fn schedule_of(&mut self, run: RunKey) -> Result<Option<String>> {
        self.rows.schedule_of(run)
    }
    fn put_scheduled(&mut self, run: RunKey, schedule: &str) -> Result<()> {
        self.rows.put_scheduled(run, schedule)
    }
    fn expire_token(&mut self, id: &str, at_ms: u64) -> Result<()> {
        self.rows.expire_token(id, at_ms)
    }
}
