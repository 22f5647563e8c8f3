//! What a run has begun, as its journal has it: its operations, and of a step how it stands and what it has sent.
//!
//! What an entry makes of them is in the fold beside this.

use std::sync::Arc;

use super::Event;
use crate::contract::EffectClass;
use crate::error::Error;
use crate::ids::RunId;
use crate::journal::entry::{Asked, ChildBegun, RecordedAnswer, StepBegun};
use crate::json::Json;
use crate::policy::effect::Outcome;

#[derive(Debug)]
pub(in crate::run) struct Op {
    pub(in crate::run) kind: OpKind,
    pub(in crate::run) outcome: Option<Result<Json, Error>>,
    pub(in crate::run) delivered: bool,
    pub(in crate::run) closed: bool,
    /// It had no outcome when the workflow was told to cancel.
    pub(super) cancelled: bool,
    /// The entry by which it has its outcome.
    pub(super) settled_at: Option<u64>,
    /// It was begun after the point that the run was taken back to.
    pub(in crate::run) void: bool,
    /// Of a child: whether it is begun again.
    pub(in crate::run) again: Again,
}

/// Whether a child is begun again, since its run was taken up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Again {
    No,
    /// It was asked to cancel by the run's end, and has not ended yet: unless it succeeds.
    IfFailed,
    Now,
}

impl Op {
    /// Begun, and the workflow still waits to hear of it.
    pub(in crate::run) fn is_open(&self) -> bool {
        !self.delivered && !self.closed
    }
}

#[derive(Debug)]
pub(in crate::run) enum OpKind {
    Step(Box<Step>),
    Sleep { due_ms: u64 },
    Wait { name: String, due_ms: Option<u64>, event: Option<Event> },
    Send { to: RunId, name: String, payload: Json },
    Child(Box<ChildBegun>),
}

/// What a doubted step waits to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Held {
    /// To be attempted.
    Ready,
    /// To be attempted at this time, in ms since the Unix epoch.
    Until(u64),
}

#[derive(Debug)]
pub(in crate::run) struct Step {
    pub(in crate::run) begun: StepBegun,
    pub(in crate::run) phase: Phase,
    /// In which epoch it began.
    pub(in crate::run) epoch: Option<Arc<str>>,
    /// The number of its latest attempt.
    pub(in crate::run) attempts: u32,
    /// How many attempts it has had.
    pub(in crate::run) tried: u32,
    /// It may have been attempted after the copy from which the run was restored, and nobody has said anything of that yet.
    pub(in crate::run) doubted: bool,
    /// What it was about to do but for the doubt. None where it is unknown for a reason of its own.
    pub(in crate::run) held: Option<Held>,
    /// Since the run was last restored from a copy a person has said what became of it.
    pub(super) cleared: bool,
    /// Failures that count.
    pub(in crate::run) failures: u32,
    /// Its next attempt shares the instance with no other body.
    pub(in crate::run) alone: bool,
    /// It is unknown only since nobody attempts it any more.
    pub(super) abandoned: bool,
    pub(in crate::run) effects: Vec<Effect>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Phase {
    Ready,
    BackingOff { due_ms: u64 },
    Executing { n: u32, deadline_ms: u64 },
    Unknown,
    Done,
}

/// Everything sent under one key.
#[derive(Debug)]
pub(in crate::run) struct Effect {
    pub(in crate::run) what: Asked,
    pub(in crate::run) key: Option<String>,
    pub(in crate::run) first_sent_ms: u64,
    pub(in crate::run) last_sent_ms: u64,
    pub(in crate::run) renew_on: Vec<u16>,
    pub(in crate::run) outcome: Outcome,
    /// A person has said that it may be sent once more, whatever became of it.
    pub(in crate::run) released: bool,
    /// All that was sent under its key was sent for a `keyed` step: the other side deduplicates it.
    pub(in crate::run) deduplicated: bool,
    /// The shortest that the other side was said to know its key, in ms.
    pub(in crate::run) key_ttl_ms: u64,
    pub(in crate::run) in_flight: bool,
    /// The status it was done with, and the answer where it was kept.
    pub(in crate::run) done: Option<(u16, Option<RecordedAnswer>)>,
}

impl Step {
    /// Keys under which its requests were sent.
    pub(in crate::run) fn keys(&self) -> u32 {
        self.effects.iter().filter(|effect| effect.key.is_some()).count() as u32
    }

    /// When the other side may forget the key of an effect of which something may have happened. Only a `keyed` step relies on it.
    /// A key that the caller chose may have been sent with more than one effect: it is as old as the first.
    pub(in crate::run) fn key_dies_ms(&self, effect: u32) -> Option<u64> {
        let of = self.effects.get(effect as usize - 1)?;
        let relied_on = self.begun.effect == EffectClass::Keyed || of.released;
        if !relied_on || of.outcome == Outcome::NotDone { None } else { self.key_forgotten_ms(effect) }
    }

    /// When the other side may forget an effect's key.
    pub(in crate::run) fn key_forgotten_ms(&self, effect: u32) -> Option<u64> {
        let effect = self.effects.get(effect as usize - 1)?;
        let same_key = self.effects.iter().filter(|other| other.key == effect.key && other.outcome != Outcome::NotDone);
        same_key.map(|e| e.first_sent_ms.saturating_add(e.key_ttl_ms.min(self.begun.key_ttl_ms))).min()
    }

    /// Whether anything sent may have happened. What is under way counts only once its attempt is over.
    pub(in crate::run) fn has_unknown(&self) -> bool {
        (1..=self.effects.len() as u32).any(|effect| self.is_unknown(effect))
    }

    /// Whether something may have happened that nobody has allowed to be sent again.
    pub(in crate::run) fn has_unreleased(&self) -> bool {
        self.effects.iter().any(|e| !e.in_flight && e.outcome == Outcome::Unknown && !e.released)
    }

    pub(in crate::run) fn is_unknown(&self, effect: u32) -> bool {
        let effect = self.effects.get(effect as usize - 1);
        effect.is_some_and(|effect| !effect.in_flight && effect.outcome == Outcome::Unknown)
    }
}

impl Op {
    /// When its timer is due, while it has one.
    pub(in crate::run) fn due_ms(&self) -> Option<u64> {
        match &self.kind {
            OpKind::Step(step) => match step.phase {
                Phase::BackingOff { due_ms } => Some(due_ms),
                Phase::Executing { deadline_ms, .. } => Some(deadline_ms),
                _ => None,
            },
            OpKind::Sleep { due_ms } => Some(*due_ms),
            OpKind::Wait { due_ms, .. } => *due_ms,
            OpKind::Send { .. } | OpKind::Child(_) => None,
        }
    }
}

impl Step {
    pub(super) fn new(begun: StepBegun) -> Self {
        Self {
            begun,
            phase: Phase::Ready,
            epoch: None,
            attempts: 0,
            tried: 0,
            doubted: false,
            held: None,
            cleared: false,
            failures: 0,
            alone: false,
            abandoned: false,
            effects: Vec::new(),
        }
    }

    /// Nobody will attempt it any more. What may have happened stays unknown.
    pub(super) fn abandon(&mut self) {
        if self.phase == Phase::Done {
            return;
        }
        let unknown =
            self.phase == Phase::Unknown || self.begun.effect != EffectClass::Repeatable && self.has_unknown();
        self.abandoned |= unknown && self.phase != Phase::Unknown;
        self.phase = if unknown { Phase::Unknown } else { Phase::Done };
    }
}
