//! What the guest sees of the machine: its commands, the clock of the present moment, and a list for what must not be.

use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::SmallRng;
use stepwell_core::contract::{AttemptRef, Exchange, Operation};
use stepwell_core::run::Machine;

/// The machine and the moment.
pub struct Host {
    /// The run.
    pub machine: Machine,
    /// The virtual clock, in ms since the Unix epoch.
    pub now_ms: u64,
    /// The host's own chance.
    pub rng: SmallRng,
    /// What the guest did and saw, since the driver asked last.
    pub notes: Vec<Note>,
    /// What must not be.
    pub violations: Vec<String>,
    /// How long each child takes, in ms.
    pub takes: BTreeMap<Operation, u64>,
    /// What workflow code was told by chance, and of which run: by its turn and place there. Of a turn that is lived through again, by
    /// whichever instance, it is the same.
    pub witness: BTreeMap<(u64, u32), (u64, String)>,
    /// Whether workflow code may trap: not where it is only compared.
    pub traps: bool,
}

/// Something of the guest that the journal does not say.
#[derive(Debug, Clone)]
pub enum Note {
    /// A body means to have this done, once more than it said so far in this attempt.
    Meant(AttemptRef, What),
    /// A body was told that this was done, by the record.
    ToldFromRecord(Operation, What),
    /// A body has answered with a result, and has not heard of these unsafe requests of its own.
    Unheard(AttemptRef, Vec<Exchange>),
    /// A body was told that this was done, by the other side.
    ToldDone(Operation, What),
}

/// What makes two requests of a step equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct What {
    /// The method.
    pub method: String,
    /// The URL.
    pub url: String,
    /// The label.
    pub label: Option<String>,
    /// The body.
    pub body: Option<Vec<u8>>,
}

impl Host {
    /// A number of the host's own chance.
    pub fn random(&mut self) -> u64 {
        self.rng.random()
    }

    /// Says that something must not be.
    pub fn violated(&mut self, what: impl Into<String>) {
        self.violations.push(what.into());
    }
}
