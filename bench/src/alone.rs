//! A guest's calls alone: the same instance and events, without a machine and a journal behind it.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use stepwell_core::contract::{
    Answer, Attempt, AttemptKind, AttemptRef, Event, Exchange, Level, Operation, Request, Response, RunOptions,
    StepOptions,
};
use stepwell_core::error::{Code, Error};
use stepwell_core::json::Json;
use stepwell_host::{Commands, Host, HostSettings, Invocation, Module, TurnDeadline, TurnEnd};

use crate::figures::{CPU, Figures, P50, RATE};
use crate::guests::Guest;
use crate::machine::Meter;
use crate::runs::micros;

/// A guest, compiled, with nobody behind it.
pub(crate) struct Alone {
    host: Host,
    module: Module,
    compute: &'static str,
}

impl Alone {
    pub(crate) fn new(guest: &Guest) -> Result<Self> {
        let host = Host::new(HostSettings { pool_instances: 4, ..HostSettings::default() })?;
        let module = host.compile(&guest.component)?;
        Ok(Self { host, module, compute: guest.compute })
    }

    /// Computing steps of one instance: each is two turns, an attempt and a completion.
    pub(crate) async fn steps(&self, input: &str, steps: u32) -> Result<Figures> {
        self.go(self.compute, input, steps, None).await
    }

    /// Steps of one instance that each send a request: a turn more, that of the answer.
    pub(crate) async fn posts(&self, input: &str, steps: u32) -> Result<Figures> {
        let headers = vec![("content-length".to_owned(), "2".to_owned())];
        let response = Response { status: 200, headers, body: b"ok".to_vec(), recorded: false };
        self.go("post", input, steps, Some(Answer::Response(response))).await
    }

    async fn go(&self, workflow: &str, input: &str, steps: u32, answer: Option<Answer>) -> Result<Figures> {
        let input = Json::parse(input)?;
        let value = Json::parse("200")?;
        let commands = Box::new(Accepting::default());
        let share = self.module.admit(&self.host).await;
        let mut guest = Invocation::new(&self.host, &self.module, share, commands, workflow, &input);
        let deadline = TurnDeadline::budget_ms(60_000);
        quiet(guest.turn(None, deadline).await)?;
        let meter = Meter::start();
        for op in 0..steps {
            quiet(guest.turn(Some(attempt(op)), deadline).await)?;
            if let Some(answer) = &answer {
                quiet(guest.turn(Some(Event::Answered(op, Ok(answer.clone()))), deadline).await)?;
            }
            let end = guest.turn(Some(Event::Completed(op, value.clone())), deadline).await;
            match end {
                TurnEnd::Returned(_) if op + 1 == steps => {}
                end => quiet(end)?,
            }
        }
        let a_step = micros(meter.wall()) / f64::from(steps);
        let cpu = micros(meter.cpu()) / f64::from(steps);
        Ok(Figures::default().with(RATE, 1e6 / a_step).with(P50, a_step).with(CPU, cpu))
    }

    /// The turns of a replay: each step is a completion alone. The instance's own making is in it.
    pub(crate) async fn completions(&self, input: &str, steps: u32) -> Result<Duration> {
        let began = Instant::now();
        let input = Json::parse(input)?;
        let commands = Box::new(Accepting::default());
        let share = self.module.admit(&self.host).await;
        let mut guest = Invocation::new(&self.host, &self.module, share, commands, self.compute, &input);
        let deadline = TurnDeadline::budget_ms(60_000);
        quiet(guest.turn(None, deadline).await)?;
        for op in 0..steps {
            match guest.turn(Some(Event::Completed(op, input.clone())), deadline).await {
                TurnEnd::Returned(_) if op + 1 == steps => {}
                end => quiet(end)?,
            }
        }
        Ok(began.elapsed())
    }
}

fn quiet(end: TurnEnd) -> Result<()> {
    match end {
        TurnEnd::Quiet => Ok(()),
        other => bail!("a guest alone ended: {other:?}"),
    }
}

fn attempt(op: Operation) -> Event {
    Event::Attempt(Attempt {
        id: AttemptRef { operation: op, number: 1 },
        kind: AttemptKind::Execute,
        idempotency_key: format!("run_0123456789abcdef0123456789abcdef:add#{op}:1"),
        operation_key: format!("run_0123456789abcdef0123456789abcdef:add#{op}"),
        deadline_ms: Some(u64::MAX),
        unknown: Vec::new(),
    })
}

/// Takes whatever these guests ask.
#[derive(Default)]
struct Accepting {
    begun: Operation,
    sent: Exchange,
}

fn refused<T>() -> Result<T, Error> {
    Err(Error::new(Code::Unsupported, "not in this measurement"))
}

impl Commands for Accepting {
    fn step_begin(&mut self, _: String, _: StepOptions) -> Result<Operation, Error> {
        self.begun += 1;
        Ok(self.begun - 1)
    }
    fn sleep(&mut self, _: u64) -> Result<Operation, Error> {
        refused()
    }
    fn wait_event(&mut self, _: String, _: Option<u64>) -> Result<Operation, Error> {
        refused()
    }
    fn start_run(&mut self, _: String, _: Json, _: RunOptions) -> Result<Operation, Error> {
        refused()
    }
    fn send_event(&mut self, _: String, _: String, _: Json) -> Result<Operation, Error> {
        refused()
    }
    fn close(&mut self, _: Operation) -> Result<(), Error> {
        Ok(())
    }
    fn continue_as_new(&mut self, _: Json) -> Result<(), Error> {
        refused()
    }
    fn step_finish(&mut self, _: AttemptRef, _: Result<Json, Error>) -> Result<(), Error> {
        Ok(())
    }
    fn http_send(&mut self, _: AttemptRef, _: Request) -> Result<Exchange, Error> {
        self.sent += 1;
        Ok(self.sent - 1)
    }
    fn delay(&mut self, _: AttemptRef, _: u64) -> Result<Exchange, Error> {
        refused()
    }
    fn now_ms(&mut self) -> u64 {
        1
    }
    fn random_u64(&mut self) -> u64 {
        7
    }
    fn log(&mut self, _: Level, _: String, _: Option<Json>) {}
    fn set_status(&mut self, _: String) {}
    fn run_id(&mut self) -> String {
        "run_1".to_owned()
    }
}
