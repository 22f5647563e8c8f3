//! What workflow code did and was told, and its replay: the same commands with the same answers, the same deliveries, clock and chance.

use stepwell_core::contract::{Event, Operation, StepOptions};
use stepwell_core::error::Error;
use stepwell_core::run::{Input, Machine, Output};

/// A command of workflow code.
#[derive(Debug, Clone)]
pub(super) enum Command {
    Step(String, StepOptions),
    Sleep(u64),
    Wait(String, Option<u64>),
    Close(Operation),
    /// Clock and chance.
    Look,
}

/// What the guest has of a command.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Had {
    Operation(Operation),
    Closed,
    Seen(u64, u64),
    Refused(Error),
}

#[derive(Debug, Clone)]
enum Did {
    Command(Command, Had),
    Told(Event),
}

/// The run's code, as far as it has come.
#[derive(Debug, Clone, Default)]
pub(super) struct Script(Vec<Did>);

impl Command {
    pub(super) fn give(&self, machine: &mut Machine, now_ms: u64) -> Had {
        let begun = |begun: Result<Operation, Error>| begun.map_or_else(Had::Refused, Had::Operation);
        match self {
            Self::Step(name, options) => begun(machine.step_begin(name, options, now_ms)),
            Self::Sleep(ms) => begun(machine.sleep(*ms, now_ms)),
            Self::Wait(name, timeout_ms) => begun(machine.wait_event(name, *timeout_ms, now_ms)),
            Self::Close(op) => machine.close(*op, now_ms, 0).map_or_else(Had::Refused, |()| Had::Closed),
            Self::Look => Had::Seen(machine.now_ms(now_ms), machine.random_u64(now_ms)),
        }
    }
}

impl Had {
    /// Whether the guest got what it asked for, where that is an operation or the end of one.
    pub(super) fn is_accepted(&self) -> bool {
        matches!(self, Self::Operation(_) | Self::Closed)
    }
}

impl Script {
    /// How many operations the guest knows of.
    pub(super) fn operations(&self) -> usize {
        self.0.iter().filter(|did| matches!(did, Did::Command(_, Had::Operation(_)))).count()
    }

    pub(super) fn did(&mut self, command: Command, had: Had) {
        self.0.push(Did::Command(command, had));
    }

    pub(super) fn told(&mut self, event: Event) {
        self.0.push(Did::Told(event));
    }

    /// Does it again up to the journal's end, and forgets what came after: the guest may go on in another way. How many deliveries
    /// there were. With `same` off it is no failure where the journal is another's.
    pub(super) fn follow(&mut self, machine: &mut Machine, now_ms: u64, same: bool) -> usize {
        let mut delivered = 0;
        for at in 0..self.0.len() {
            if machine.at_frontier() {
                self.0.truncate(at);
                break;
            }
            match &self.0[at] {
                Did::Command(command, had) => {
                    let again = command.give(machine, now_ms);
                    assert!(!same || again == *had, "{command:?} on replay: {again:?}, and before: {had:?}");
                    silent(machine, command, same);
                }
                Did::Told(event) => {
                    machine.handle(Input::Quiet, now_ms, 0);
                    match &machine.outputs()[..] {
                        [Output::Deliver(again)] if again == event => delivered += 1,
                        outputs => assert!(!same, "on replay {outputs:?}, and before: {event:?}"),
                    }
                }
            }
            if machine.stopped().is_some() && !same {
                return delivered;
            }
        }
        delivered
    }
}

/// Nothing comes of a command that is replayed.
fn silent(machine: &mut Machine, command: &Command, same: bool) {
    let outputs = machine.outputs();
    assert!(!same || outputs.is_empty(), "{command:?} on replay: {outputs:?}");
}
