//! The play of the effects' tests: one step that charges somebody, and a world that answers as it is told.

use crate::play::{Play, class, post, status_error};
use stepwell_core::contract::{Attempt, EffectClass, Event, Request, StepOptions};
use stepwell_core::error::{Code, Error};
use stepwell_core::run::Activity;

/// A run with one step of that class, and its first attempt.
pub(super) fn charge(effect: EffectClass) -> (Play, Attempt) {
    charge_with(&class(effect))
}

pub(super) fn charge_with(options: &StepOptions) -> (Play, Attempt) {
    let mut play = Play::new();
    play.step_with("charge", options);
    let attempt = play.attempt();
    (play, attempt)
}

/// How the world answers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum World {
    Status(u16),
    Lost,
    Refused,
}

impl Play {
    /// Sends a request, lets the world answer it, and tells the body.
    pub(crate) fn round(&mut self, attempt: &Attempt, request: Request, world: World) {
        let exchange = self.send(attempt, request);
        match world {
            World::Status(status) => self.answered(exchange, status, "answer"),
            World::Lost => self.lost(exchange),
            World::Refused => self.not_sent(exchange),
        }
        assert!(matches!(self.quiet(), Some(Event::Answered(told, _)) if told == exchange));
    }

    /// One attempt with one request; then it fails as the SDK would have it, and the next attempt begins.
    pub(crate) fn failed_round(&mut self, attempt: &Attempt, world: World) -> Attempt {
        self.round(attempt, post("charge 5"), world);
        self.fails(attempt, world);
        self.next_due();
        self.attempt()
    }

    pub(crate) fn fails(&mut self, attempt: &Attempt, world: World) {
        let error = match world {
            World::Status(status) => status_error(status),
            World::Lost => Error::new(Code::RequestFailed, "no answer"),
            World::Refused => Error::new(Code::ConnectFailed, "connection refused"),
        };
        self.finish(attempt, Err(error));
    }

    /// The attempt sends its request once more, is answered well and ends the run.
    pub(crate) fn succeeds(&mut self, attempt: &Attempt) {
        self.round(attempt, post("charge 5"), World::Status(200));
        self.finish(attempt, Ok("\"charged\""));
        assert!(matches!(self.quiet(), Some(Event::Completed(..))));
        self.returns(Ok("\"charged\""));
    }

    pub(crate) fn ends_unknown(&mut self) {
        self.nothing();
        assert!(matches!(self.activity(), Activity::Blocked(steps) if steps[0].name == "charge"));
        assert_eq!(self.machine.unknown_steps().len(), 1);
    }
}
