//! The rows of the ledger in memory: each change has what takes it back.

use std::collections::{BTreeMap, HashMap};

use stepwell_core::ids::{Digest, RunId};

use super::{Mail, RunState, Transaction, inbox_event};
use crate::error::{Result, StoreError};
use crate::ledger::{Child, Head, LastEntry, Rows};
use crate::links::{Link, Links, Reply};
use crate::parts;
use crate::queue::QueueRows;
use crate::rows::{EndedRun, InboxEvent, LogRow, NewEvent, NewModule, NewRun, RunChange, RunKey, RunRow};
use crate::schedules::Schedule;
use crate::status::Status;
use crate::submission::{Active, Answer, Token};
impl Rows for Transaction<'_> {
    fn head(&mut self, run: RunKey) -> Result<Option<Head>> {
        Ok(self.state.run(run).map(|found| Head {
            status: found.row.status,
            next_seq: found.journal.len() as u64,
            wake_at_ms: found.row.wake_at_ms,
            is_queued: self.state.queue.find(run).is_some(),
        }))
    }

    fn run_by_id(&mut self, run: &RunId) -> Result<Option<RunKey>> {
        Ok(self.state.run_ids.get(run).copied())
    }

    fn run_by_run_key(&mut self, run_key: &str) -> Result<Option<(RunId, RunKey)>> {
        let found = self.state.run_keys.get(run_key).and_then(|&key| Some((self.state.run(key)?.row.run.clone(), key)));
        Ok(found)
    }

    fn queue(&mut self) -> &mut dyn QueueRows {
        self
    }

    fn add_run(&mut self, run: &NewRun, wake_at_ms: Option<u64>) -> Result<RunKey> {
        // The last one is never taken away.
        let key = self.state.runs.last_key_value().map_or(1, |(last, _)| last + 1);
        let row = RunRow { wake_at_ms, ..queued_row(key, run) };
        let added = RunState {
            row,
            inbox_seen: 0,
            journal: Vec::new(),
            parts: BTreeMap::new(),
            logs: Vec::new(),
            log_places: BTreeMap::new(),
            inbox: Vec::new(),
            held: Vec::new(),
            link: Link::default(),
            schedule: None,
            damaged: false,
        };
        self.state.runs.insert(key, added);
        self.state.run_ids.insert(run.run.clone(), key);
        if let Some(run_key) = &run.run_key {
            self.state.run_keys.insert(run_key.clone(), key);
        }
        let (run, run_key) = (run.run.clone(), run.run_key.clone());
        self.on_undo(move |state| {
            state.runs.remove(&key);
            state.run_ids.remove(&run);
            if let Some(run_key) = run_key {
                state.run_keys.remove(&run_key);
            }
            Ok(())
        });
        Ok(key)
    }

    fn change_run(
        &mut self,
        run: RunKey,
        change: &RunChange,
        wake_at_ms: Option<u64>,
        _last: Option<LastEntry<'_>>,
    ) -> Result<()> {
        let found = self.state.run_mut(run)?;
        let before = (found.row.clone(), found.inbox_seen);
        found.inbox_seen = change.inbox_seen.unwrap_or(found.inbox_seen);
        let row = &mut found.row;
        row.status = change.status;
        row.detail.clone_from(&change.detail);
        row.wake_at_ms = wake_at_ms;
        row.outcome.clone_from(&change.outcome);
        row.changed_at_ms = change.at_ms;
        if let Some(digest) = &change.digest {
            row.digest.clone_from(digest);
        }
        if let Some(text) = &change.status_text {
            row.status_text = Some(text.clone());
        }
        if let Some(recoveries) = change.recoveries {
            row.recoveries = recoveries;
        }
        self.on_undo(move |state| state.run_mut(run).map(|found| (found.row, found.inbox_seen) = before));
        Ok(())
    }

    fn set_unknown(&mut self, run: RunKey, unknown: u32) -> Result<()> {
        let before = std::mem::replace(&mut self.state.run_mut(run)?.row.unknown, unknown);
        self.on_undo(move |state| state.run_mut(run).map(|found| found.row.unknown = before));
        Ok(())
    }

    fn add_entries(&mut self, run: RunKey, first_seq: u64, entries: &[Vec<u8>]) -> Result<()> {
        let journal = &mut self.state.run_mut(run)?.journal;
        let before = journal.len();
        if before as u64 != first_seq {
            return Err(StoreError::Internal(format!("entry {first_seq} of run {run} is not its next")));
        }
        journal.extend_from_slice(entries);
        self.on_undo(move |state| state.run_mut(run).map(|found| found.journal.truncate(before)));
        Ok(())
    }

    fn add_part(&mut self, run: RunKey, seq: u64, number: u32, bytes: &[u8]) -> Result<()> {
        let place = (seq, number);
        let before = self.state.run_mut(run)?.parts.insert(place, bytes.to_vec());
        self.on_undo(move |state| {
            let parts = &mut state.run_mut(run)?.parts;
            match before {
                Some(bytes) => parts.insert(place, bytes),
                None => parts.remove(&place),
            };
            Ok(())
        });
        Ok(())
    }

    fn forget_parts(&mut self, run: RunKey, from: u64) -> Result<()> {
        let mut forgotten = self.state.run_mut(run)?.parts.split_off(&(from, 0));
        self.on_undo(move |state| state.run_mut(run).map(|found| found.parts.append(&mut forgotten)));
        Ok(())
    }

    fn add_entry_in_parts(&mut self, run: RunKey, seq: u64, entry: &[u8]) -> Result<()> {
        let kept = &self.state.run_mut(run)?.parts;
        let parts = (0..parts::count(entry)).filter_map(|number| kept.get(&(seq, number)));
        let whole: Vec<u8> = parts.flatten().copied().collect();
        if whole != entry {
            return Err(StoreError::Internal(format!("parts of entry {seq} of run {run} were not kept before it")));
        }
        self.add_entries(run, seq, &[whole])
    }

    fn add_log(&mut self, run: RunKey, row: &LogRow) -> Result<()> {
        let place = (row.turn, row.index);
        let found = self.state.run_mut(run)?;
        if found.log_places.contains_key(&place) {
            return Ok(());
        }
        found.log_places.insert(place, found.logs.len());
        found.logs.push(row.clone());
        self.on_undo(move |state| {
            state.run_mut(run).map(|found| {
                found.logs.pop();
                found.log_places.remove(&place);
            })
        });
        Ok(())
    }

    fn add_timer(&mut self, due_ms: u64, run: RunKey) -> Result<()> {
        self.state.timers.insert((due_ms, run));
        self.on_undo(move |state| {
            state.timers.remove(&(due_ms, run));
            Ok(())
        });
        Ok(())
    }

    fn remove_timer(&mut self, due_ms: u64, run: RunKey) -> Result<()> {
        if self.state.timers.remove(&(due_ms, run)) {
            self.on_undo(move |state| {
                state.timers.insert((due_ms, run));
                Ok(())
            });
        }
        Ok(())
    }

    fn last_event(&mut self, run: RunKey) -> Result<u64> {
        Ok(self.state.run(run).map_or(0, |found| found.inbox.len() as u64))
    }

    fn event_by_dedup(&mut self, run: RunKey, dedup: &str) -> Result<Option<InboxEvent>> {
        let inbox = self.state.run(run).map_or(&[][..], |found| &found.inbox);
        let found = (1..).zip(inbox).find(|(_, mail)| mail.event.dedup.as_deref() == Some(dedup));
        Ok(found.map(|(number, mail)| inbox_event(number, mail)))
    }

    fn add_event(&mut self, _number: u64, event: &NewEvent) -> Result<()> {
        self.put(event.run, Mail { event: event.clone(), reply_to: None })
    }

    fn add_reply(&mut self, run: RunKey, _number: u64, op: u32, reply: Reply, payload: &str) -> Result<()> {
        let event = NewEvent { run, name: reply.as_str().to_owned(), payload: payload.to_owned(), dedup: None };
        self.put(run, Mail { event, reply_to: Some(op) })
    }

    fn events_left(&mut self, run: RunKey, numbers: &[u64], seen: u64) -> Result<Vec<NewEvent>> {
        let inbox = self.state.run(run).map_or(&[][..], |found| &found.inbox);
        let left = (1..)
            .zip(inbox)
            .filter(|(number, mail)| mail.reply_to.is_none() && (*number > seen || numbers.contains(number)));
        Ok(left.map(|(_, mail)| mail.event.clone()).collect())
    }

    fn link(&mut self, run: RunKey) -> Result<Link> {
        Ok(self.state.run(run).map_or(Link::default(), |found| found.link))
    }

    fn put_link(&mut self, run: RunKey, link: &Link) -> Result<()> {
        let before = self.link(run)?;
        self.state.set_link(run, *link)?;
        self.on_undo(move |state| state.set_link(run, before));
        Ok(())
    }

    fn last_after(&mut self, first: RunKey) -> Result<Option<RunKey>> {
        Ok(self.state.last_after(first))
    }

    fn open_children(&mut self, run: RunKey) -> Result<Vec<RunKey>> {
        let child = |found: &&RunState| {
            found.link.parent.is_some_and(|(parent, _)| parent == run) && !found.row.status.is_finished()
        };
        Ok(self.state.runs.values().filter(child).map(|found| found.row.key).collect())
    }

    fn children(&mut self, run: RunKey) -> Result<Vec<Child>> {
        let children =
            self.state.runs.values().rev().filter(|found| found.link.parent.is_some_and(|(parent, _)| parent == run));
        let child = |found: &RunState| {
            let row = &found.row;
            Child { run: row.key, status: row.status, outcome: row.outcome.clone() }
        };
        Ok(children.map(child).collect())
    }

    fn release_run_key(&mut self, run: RunKey) -> Result<()> {
        let Some(run_key) = self.state.run_mut(run)?.row.run_key.take() else { return Ok(()) };
        self.state.run_keys.remove(&run_key);
        self.on_undo(move |state| {
            state.run_keys.insert(run_key.clone(), run);
            state.run_mut(run).map(|found| found.row.run_key = Some(run_key))
        });
        Ok(())
    }

    fn add_module(&mut self, module: &NewModule) -> Result<bool> {
        if self.state.modules.contains_key(&module.digest) {
            return Ok(false);
        }
        self.state.modules.insert(module.digest.clone(), module.clone());
        let digest = module.digest.clone();
        self.on_undo(move |state| {
            state.modules.remove(&digest);
            Ok(())
        });
        Ok(true)
    }

    fn add_tag(&mut self, _run: RunKey, _name: &str, _value: &str) -> Result<()> {
        // They are in the row already, and nothing is found faster here.
        Ok(())
    }

    fn has_module(&mut self, digest: &Digest) -> Result<bool> {
        Ok(self.state.modules.contains_key(digest))
    }

    fn workflow_on(&mut self, digest: &Digest) -> Result<Option<String>> {
        let active = self.state.active.values().find(|active| active.digest == *digest);
        Ok(active.map(|active| active.workflow.clone()))
    }

    fn runs_on(&mut self, digest: &Digest) -> Result<u64> {
        let needs = |row: &RunRow| row.digest == *digest && (!row.status.is_finished() || row.status == Status::Failed);
        Ok(self.state.runs.values().filter(|found| needs(&found.row)).count() as u64)
    }

    fn remove_module(&mut self, digest: &Digest) -> Result<()> {
        if let Some(module) = self.state.modules.remove(digest) {
            self.on_undo(move |state| {
                state.modules.insert(module.digest.clone(), module);
                Ok(())
            });
        }
        Ok(())
    }

    fn active(&mut self, workflow: &str) -> Result<Option<Digest>> {
        Ok(self.state.active.get(workflow).map(|active| active.digest.clone()))
    }

    fn activate(&mut self, workflow: &str, digest: &Digest, at_ms: u64) -> Result<()> {
        let active = Active { workflow: workflow.to_owned(), digest: digest.clone(), activated_at_ms: at_ms };
        let before = self.state.active.insert(workflow.to_owned(), active);
        let workflow = workflow.to_owned();
        self.on_undo(move |state| {
            put_back(&mut state.active, workflow, before);
            Ok(())
        });
        Ok(())
    }

    fn answer(&mut self, key: &str) -> Result<Option<Answer>> {
        Ok(self.state.answers.get(key).cloned())
    }

    fn put_answer(&mut self, answer: &Answer) -> Result<()> {
        let key = answer.key.clone();
        let before = self.state.answers.insert(key.clone(), answer.clone());
        self.on_undo(move |state| {
            match before {
                Some(before) => state.answers.insert(key, before),
                None => state.answers.remove(&key),
            };
            Ok(())
        });
        Ok(())
    }

    fn forget_answers(&mut self, before_ms: u64, most: u32) -> Result<bool> {
        let old = |answer: &Answer| !answer.kept && answer.at_ms < before_ms;
        let gone: HashMap<_, _> = self.state.answers.extract_if(|_, answer| old(answer)).take(most as usize).collect();
        let more = gone.len() == most as usize;
        self.on_undo(move |state| {
            state.answers.extend(gone);
            Ok(())
        });
        Ok(more)
    }

    fn hold(&mut self, run: RunKey, key: &str) -> Result<()> {
        self.state.run_mut(run)?.held.push(key.to_owned());
        self.on_undo(move |state| state.run_mut(run).map(|found| drop(found.held.pop())));
        Ok(())
    }

    fn ended(&mut self, run: RunKey) -> Result<Option<EndedRun>> {
        Ok(self.state.ended(run))
    }

    fn forget_run(&mut self, run: RunKey) -> Result<()> {
        self.queue_mut().forget(run);
        let Some(gone) = self.state.runs.remove(&run) else { return Ok(()) };
        self.state.run_ids.remove(&gone.row.run);
        if let Some(run_key) = &gone.row.run_key {
            self.state.run_keys.remove(run_key);
        }
        let let_go: Vec<String> = gone.held.iter().filter(|key| !self.state.is_held(key)).cloned().collect();
        for key in &let_go {
            self.state.answers.entry(key.clone()).and_modify(|answer| answer.kept = false);
        }
        let mut orphans = Vec::new();
        for found in self.state.runs.values_mut().filter(|of| of.link.parent.is_some_and(|(by, _)| by == run)) {
            orphans.push((found.row.key, found.row.links.parent.take()));
        }
        self.on_undo(move |state| {
            for (orphan, parent) in orphans {
                state.run_mut(orphan)?.row.links.parent = parent;
            }
            for key in let_go {
                state.answers.entry(key).and_modify(|answer| answer.kept = true);
            }
            state.run_ids.insert(gone.row.run.clone(), run);
            if let Some(run_key) = gone.row.run_key.clone() {
                state.run_keys.insert(run_key, run);
            }
            state.runs.insert(run, gone);
            Ok(())
        });
        Ok(())
    }

    fn forget_rows(&mut self, _most: u32) -> Result<bool> {
        // They have gone with their run.
        Ok(false)
    }

    fn try_writing(&mut self) -> Result<()> {
        Ok(())
    }

    fn schedule_version(&mut self, name: &str) -> Result<Option<u64>> {
        Ok(self.state.schedules.get(name).map(|schedule| schedule.version))
    }

    fn put_schedule(&mut self, schedule: &Schedule) -> Result<()> {
        let name = schedule.name.clone();
        let before = self.state.schedules.insert(name.clone(), schedule.clone());
        self.on_undo(move |state| {
            put_back(&mut state.schedules, name, before);
            Ok(())
        });
        Ok(())
    }

    fn remove_schedule(&mut self, name: &str) -> Result<()> {
        let (name, before) = (name.to_owned(), self.state.schedules.remove(name));
        self.on_undo(move |state| {
            put_back(&mut state.schedules, name, before);
            Ok(())
        });
        Ok(())
    }

    fn schedule_of(&mut self, run: RunKey) -> Result<Option<String>> {
        Ok(self.state.run(run).and_then(|found| found.schedule.clone()))
    }

    fn put_scheduled(&mut self, run: RunKey, schedule: &str) -> Result<()> {
        self.state.run_mut(run)?.schedule = Some(schedule.to_owned());
        self.on_undo(move |state| state.run_mut(run).map(|found| found.schedule = None));
        Ok(())
    }

    fn token(&mut self, id: &str) -> Result<Option<Token>> {
        Ok(self.state.tokens.get(id).cloned())
    }

    fn tokens(&mut self) -> Result<Vec<Token>> {
        Ok(self.state.tokens.values().cloned().collect())
    }

    fn add_token(&mut self, token: &Token) -> Result<()> {
        let before = self.state.tokens.insert(token.id.clone(), token.clone());
        let id = token.id.clone();
        self.on_undo(move |state| {
            put_back(&mut state.tokens, id, before);
            Ok(())
        });
        Ok(())
    }

    fn expire_token(&mut self, id: &str, at_ms: u64) -> Result<()> {
        if let Some(mut token) = self.state.tokens.get(id).cloned() {
            token.expires_at_ms = Some(token.expires_at_ms.map_or(at_ms, |before| before.min(at_ms)));
            self.add_token(&token)?;
        }
        Ok(())
    }
}

fn put_back<T>(rows: &mut BTreeMap<String, T>, name: String, before: Option<T>) {
    match before {
        Some(before) => rows.insert(name, before),
        None => rows.remove(&name),
    };
}

fn queued_row(key: RunKey, run: &NewRun) -> RunRow {
    RunRow {
        key,
        run: run.run.clone(),
        workflow: run.workflow.clone(),
        digest: run.digest.clone(),
        run_key: run.run_key.clone(),
        status: Status::Queued,
        detail: None,
        status_text: None,
        wake_at_ms: None,
        tags: sorted(&run.tags),
        retry_of: run.retry_of.clone(),
        rerun_of: run.rerun.as_ref().map(|rerun| rerun.of.clone()),
        outcome: None,
        recoveries: 0,
        unknown: run.rerun.as_ref().map_or(0, |rerun| rerun.unknown),
        created_at_ms: run.created_at_ms,
        changed_at_ms: run.created_at_ms,
        links: Links::default(),
        turn: None,
        concurrency_key: None,
        priority: 0,
    }
}

fn sorted(tags: &[(String, String)]) -> Vec<(String, String)> {
    tags.iter().cloned().collect::<BTreeMap<_, _>>().into_iter().collect()
}
