//! Replaying a run without effects: does its code still do what the journal says?

use stepwell_core::contract::Event;
use stepwell_core::error::Error;
use stepwell_core::ids::Digest;
use stepwell_core::journal::mismatch::Mismatch;
use stepwell_core::run::{Input, Machine, Mode, Output};
use stepwell_host::{Invocation, TurnDeadline, TurnEnd};

use crate::clock::RunClock;
use crate::commands::Handle;
use crate::effects::Outside;
use crate::engine::Engine;
use crate::slice::Slice;
use crate::start::RunRef;

/// What a replay has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The code does what the journal says.
    Same,
    /// It does something else. The first difference.
    Differs(Mismatch),
}

impl Engine {
    /// Replays a run on its own module. Nothing is recorded, and nothing leaves.
    ///
    /// # Errors
    /// When the run or its module cannot be read.
    pub async fn verify(&self, run: &RunRef) -> Result<Verdict, Error> {
        self.verify_on(run, None).await.map(|(_, verdict)| verdict)
    }

    /// The same on another module, and how many entries were replayed.
    pub(crate) async fn verify_on(&self, run: &RunRef, digest: Option<&Digest>) -> Result<(u64, Verdict), Error> {
        let machine = self.machine(run.key, Mode::Verify)?;
        let entries = machine.entries();
        self.replay(machine, digest).await.map(|verdict| (entries, verdict))
    }

    pub(crate) async fn replay(&self, machine: Machine, digest: Option<&Digest>) -> Result<Verdict, Error> {
        let (engine, digest) = (self.clone(), digest.cloned());
        self.long().carry(async move { engine.replayed(machine, digest.as_ref()).await }).await
    }

    async fn replayed(&self, machine: Machine, digest: Option<&Digest>) -> Result<Verdict, Error> {
        let other_code = digest.is_some_and(|digest| digest != machine.digest());
        let loaded = self.loaded(digest.unwrap_or(machine.digest())).await?;
        let started = machine.started().clone();
        // A run that the host ended came to its end between two turns: there is nothing to compare it with.
        let must_return = machine.ended_by_return();
        let outside = Outside {
            client: self.client().clone(),
            destinations: stepwell_host::http::Destinations::None,
            secrets: Vec::new(),
        };
        let shared = Handle::new(machine, RunClock::default(), outside);
        let commands = Box::new(shared.clone());
        let share = loaded.module.admit(self.host()).await;
        let mut invocation =
            Invocation::new(self.host(), &loaded.module, share, commands, &started.workflow, &started.input);
        let mut event: Option<Event> = None;
        let mut slice = Slice::begin();
        loop {
            if slice.is_over() {
                slice.give_way().await;
            }
            if !must_return && shared.lock().machine.at_frontier() && event.is_none() {
                return Ok(Verdict::Same);
            }
            let deadline = TurnDeadline { budget: self.settings().workflow_turn, at: None };
            let input = match invocation.turn(event.take(), deadline).await {
                TurnEnd::Quiet if !must_return && shared.lock().machine.at_frontier() => return Ok(Verdict::Same),
                TurnEnd::Quiet => Input::Quiet,
                TurnEnd::Idle => Input::Idle,
                TurnEnd::Returned(result) => Input::Returned(result),
                TurnEnd::Trapped(trap) => Input::Trapped(trap.to_error()),
            };
            let outputs = {
                let mut shared = shared.lock();
                shared.machine.handle(input, 0, 0);
                shared.machine.outputs()
            };
            for output in outputs {
                match output {
                    Output::Deliver(next) => event = Some(next),
                    Output::Verified => return Ok(Verdict::Same),
                    Output::Stopped(mismatch) if other_code => return Ok(Verdict::Differs(mismatch.on_other_code())),
                    Output::Stopped(mismatch) => return Ok(Verdict::Differs(mismatch)),
                    _ => {}
                }
            }
        }
    }
}
