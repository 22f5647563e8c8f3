//! An invocation: one life of a guest instance, from instantiation to its result, its trap or its being dropped.

use std::pin::Pin;
use std::sync::Arc;

use stepwell_core::contract::{AttemptRef, Event, Exchange, Level, Operation, Request, RunOptions, StepOptions};
use stepwell_core::error::{Code, Error};
use stepwell_core::json::Json;
use wasmtime::Store;

use crate::bindings::{Definition, Workflow};
use crate::commands::Commands;
use crate::convert;
use crate::guest::Guest;
use crate::host::Host;
use crate::memory::MemoryShare;
use crate::module::Module;
use crate::trap::{NoInstance, Trap, TrapKind};
use crate::turn::{Execution, InterruptHandle, Progress, Shared, TurnDeadline};

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnd {
    /// The guest is in `next` and has nothing else to run: it can be told the next event, or dropped and rebuilt.
    Quiet,
    /// It has nothing to run and is not in `next`: no event will ever reach it.
    Idle,
    /// `run` has returned. The invocation is over.
    Returned(Result<Json, Error>),
    /// It ended without a result.
    Trapped(Trap),
}

/// One life of a guest instance, owned by its run's task. Dropping it ends it.
pub struct Invocation(Execution<Result<Json, Error>>);

impl Invocation {
    /// An invocation of one workflow. Nothing runs yet: the first turn instantiates the module, within that turn's deadline.
    #[must_use]
    pub fn new(
        host: &Host,
        module: &Module,
        share: Arc<MemoryShare>,
        commands: Box<dyn Commands>,
        workflow: &str,
        input: &Json,
    ) -> Self {
        let (workflow, input) = (workflow.to_owned(), input.as_str().to_owned());
        Self(execution(host, module, share, commands, |store, instance| {
            Box::pin(async move {
                let workflows = instance.stepwell_workflow_workflows();
                let returned = store
                    .run_concurrent(async |accessor| workflows.call_run(accessor, workflow, input).await)
                    .await??;
                Ok(convert::outcome(returned))
            })
        }))
    }

    /// One turn: delivers `event` and lets the guest run until nothing is left to run. The first turn has none: it begins `run`.
    ///
    /// While the guest computes, the future gives way to others at every epoch, so timers beside it in a `select!` are met. If it is
    /// dropped, the turn under way is taken up by the next call, with `None` and the deadline given there.
    pub async fn turn(&mut self, event: Option<Event>, deadline: TurnDeadline) -> TurnEnd {
        match self.0.turn(event, deadline).await {
            Progress::Quiet => TurnEnd::Quiet,
            Progress::Idle => TurnEnd::Idle,
            Progress::Returned(outcome) => TurnEnd::Returned(outcome),
            Progress::Trapped(trap) => TurnEnd::Trapped(trap),
        }
    }

    /// To end the invocation from elsewhere.
    #[must_use]
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.0.interrupt_handle()
    }
}

/// Runs `describe` in an instance of its own.
pub(crate) async fn describe(host: &Host, module: &Module, deadline: TurnDeadline) -> Result<Vec<Definition>, Trap> {
    let share = Arc::new(MemoryShare::uncounted());
    let commands = Box::new(Describing { drawn: 0 });
    let mut execution = execution(host, module, share.clone(), commands, |store, instance| {
        Box::pin(instance.stepwell_workflow_workflows().call_describe(store))
    });
    let progress = execution.turn(None, deadline).await;
    module.needs_memory(share.bytes());
    match progress {
        Progress::Returned(definitions) => Ok(definitions),
        Progress::Trapped(trap) => Err(trap),
        Progress::Quiet | Progress::Idle => {
            Err(Trap { kind: TrapKind::Trap, message: "it waits, and nothing will come".into() })
        }
    }
}

/// A call of one of the module's functions.
type Call<'a, R> = Pin<Box<dyn Future<Output = wasmtime::Result<R>> + Send + 'a>>;

fn execution<R: Send + 'static>(
    host: &Host,
    module: &Module,
    share: Arc<MemoryShare>,
    commands: Box<dyn Commands>,
    call: impl for<'a> FnOnce(&'a mut Store<Guest>, &'a Workflow) -> Call<'a, R> + Send + 'static,
) -> Execution<R> {
    let shared = Arc::new(Shared::default());
    let (host, module, of_guest) = (host.clone(), module.clone(), shared.clone());
    let life = Box::pin(async move {
        // Declared before the store and so dropped after it: the place is free once the instance is gone.
        let (pre, _place) = module.ground(&host).map_err(NoInstance::unless_the_guests)?;
        let mut store = Guest::store(pre.engine(), host.settings(), of_guest, commands, share);
        let result = match pre.instantiate_async(&mut store).await {
            Ok(instance) => call(&mut store, &instance).await,
            Err(error) => Err(NoInstance::unless_the_guests(error)),
        };
        store.data_mut().end();
        result
    });
    Execution::new(shared, life)
}

/// The commands of a module that describes itself: it has a run's functions and no run. Clock and randomness are constant, so that
/// the answer depends on the module alone.
struct Describing {
    drawn: u64,
}

impl Describing {
    fn refuse<T>(&self) -> Result<T, Error> {
        Err(Error::new(Code::Unsupported, "`describe` may not begin anything: there is no run").never_retried())
    }
}

impl Commands for Describing {
    fn step_begin(&mut self, _: String, _: StepOptions) -> Result<Operation, Error> {
        self.refuse()
    }
    fn sleep(&mut self, _: u64) -> Result<Operation, Error> {
        self.refuse()
    }
    fn wait_event(&mut self, _: String, _: Option<u64>) -> Result<Operation, Error> {
        self.refuse()
    }
    fn start_run(&mut self, _: String, _: Json, _: RunOptions) -> Result<Operation, Error> {
        self.refuse()
    }
    fn send_event(&mut self, _: String, _: String, _: Json) -> Result<Operation, Error> {
        self.refuse()
    }
    fn close(&mut self, _: Operation) -> Result<(), Error> {
        self.refuse()
    }
    fn continue_as_new(&mut self, _: Json) -> Result<(), Error> {
        self.refuse()
    }
    fn step_finish(&mut self, _: AttemptRef, _: Result<Json, Error>) -> Result<(), Error> {
        self.refuse()
    }
    fn http_send(&mut self, _: AttemptRef, _: Request) -> Result<Exchange, Error> {
        self.refuse()
    }
    fn delay(&mut self, _: AttemptRef, _: u64) -> Result<Exchange, Error> {
        self.refuse()
    }
    fn now_ms(&mut self) -> u64 {
        0
    }
    fn random_u64(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
    fn log(&mut self, _: Level, message: String, _: Option<Json>) {
        tracing::debug!(message, "from a module's `describe`");
    }
    fn set_status(&mut self, _: String) {}
    fn run_id(&mut self) -> String {
        String::new()
    }
}
