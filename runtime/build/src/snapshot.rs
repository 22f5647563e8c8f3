//! Evaluates the modules in the linked runtime and freezes what has become of it into a component.
//!
//! Everything that evaluation can see is deterministic (`stubs`), and its time and memory are bounded.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use wasmtime::component::{Instance, Linker, Val};
use wasmtime::{Store, StoreContextMut, StoreLimits, StoreLimitsBuilder, Trap, UpdateDeadline};
use wasmtime_wizer::{WasmtimeWizerComponent, Wizer};

use crate::graph::Graph;
use crate::runtime::Runtime;
use crate::{BuildError, BuildLine, Diagnostic, Stage, Thrown, sdk, stubs, typescript};

const WORKFLOWS: &str = "stepwell:workflow/workflows@0.1.0";

/// What top-level code may take, in bytes. A snapshot of more would be of no use as a module.
const MEMORY_LIMIT: usize = 512 << 20;

/// Lines of output that are kept; top-level code that prints more has lost its way.
const OUTPUT_LIMIT: usize = 10_000;

/// The state of one evaluation.
pub(crate) struct Evaluation {
    graph: Graph,
    output: Vec<BuildLine>,
    thrown: Option<Thrown>,
    /// What the runtime wrote to its standard streams: the text of a panic.
    written: Vec<u8>,
    expired: bool,
    limits: StoreLimits,
}

impl Evaluation {
    /// The contract's `log`: a line of output, or the entry module's report of what was thrown.
    pub(crate) fn log(&mut self, arguments: &[Val]) {
        let [Val::Enum(level), Val::String(text), fields] = arguments else { return };
        let fields = match fields {
            Val::Option(Some(fields)) => match &**fields {
                Val::String(fields) => Some(fields.as_str()),
                _ => None,
            },
            _ => None,
        };
        if text == sdk::THROWN
            && let Some(thrown) = fields.and_then(|fields| serde_json::from_str(fields).ok())
        {
            self.thrown = Some(thrown);
        } else if self.output.len() < OUTPUT_LIMIT {
            let text = fields.map_or_else(|| text.clone(), |fields| format!("{text} {fields}"));
            self.output.push(BuildLine { level: level.clone(), text });
        }
    }

    pub(crate) fn write(&mut self, bytes: impl Iterator<Item = u8>) {
        self.written.extend(bytes.take(OUTPUT_LIMIT));
    }
}

/// The component of the graph's modules, and what they printed.
pub(crate) fn evaluate(
    runtime: &Runtime,
    graph: Graph,
    timeout: Duration,
    progress: &dyn Fn(Stage),
) -> Result<(Vec<u8>, Vec<BuildLine>), BuildError> {
    progress(Stage::Evaluate);
    let entry = graph.entry.clone();
    let mut store = new_store(runtime, graph, timeout);
    let linker = new_linker(runtime).map_err(anyhow::Error::from)?;
    let _alarm = Alarm::after(runtime, timeout);
    block_on(async {
        let instance = linker.instantiate_async(&mut store, &runtime.component).await.map_err(anyhow::Error::from)?;
        if let Err(error) = initialise(runtime, &mut store, &instance, &entry).await {
            return Err(explain(store.data(), &error, timeout));
        }
        progress(Stage::Snapshot);
        let wizer = Wizer::new();
        let (context, _) = wizer.instrument_component(&runtime.linked).map_err(anyhow::Error::from)?;
        let mut state = WasmtimeWizerComponent { store: &mut store, instance };
        let component = wizer.snapshot_component(&context, &mut state).await.map_err(anyhow::Error::from)?;
        let component = componentize_qjs::stubwasi::stub_internal_imports(&component)?;
        let output = store.data().output.clone();
        match count_workflows(&mut store, &instance).await {
            Err(error) => Err(explain(store.data(), &error, timeout)),
            Ok(0) => Err(BuildError::NoWorkflow { entry, output }),
            Ok(_) => Ok((component, output)),
        }
    })
}

fn new_store(runtime: &Runtime, graph: Graph, timeout: Duration) -> Store<Evaluation> {
    let limits = StoreLimitsBuilder::new().memory_size(MEMORY_LIMIT).build();
    let evaluation =
        Evaluation { graph, output: Vec::new(), thrown: None, written: Vec::new(), expired: false, limits };
    let mut store = Store::new(&runtime.engine, evaluation);
    store.limiter(|evaluation| &mut evaluation.limits);
    let deadline = Instant::now() + timeout;
    store.set_epoch_deadline(1);
    // The epoch is the engine's: another build's alarm may have moved it.
    store.epoch_deadline_callback(move |mut store| {
        let expired = Instant::now() >= deadline;
        store.data_mut().expired = expired;
        Ok(if expired { UpdateDeadline::Interrupt } else { UpdateDeadline::Continue(1) })
    });
    store
}

fn new_linker(runtime: &Runtime) -> wasmtime::Result<Linker<Evaluation>> {
    let mut linker = Linker::new(&runtime.engine);
    stubs::define(&mut linker, &runtime.component)?;
    let mut loader = linker.instance("local:init/module-loader")?;
    loader.func_wrap(
        "resolve",
        |store: StoreContextMut<'_, Evaluation>, (referrer, specifier): (String, String)| {
            let graph = &store.data().graph;
            let resolved = graph.resolve(&referrer, &specifier);
            Ok((resolved.ok_or_else(|| format!("cannot find the module \"{specifier}\"")),))
        },
    )?;
    loader.func_wrap("load", |store: StoreContextMut<'_, Evaluation>, (name,): (String,)| {
        let text = sdk::load(&name).or_else(|| store.data().graph.modules.get(&name).map(|module| module.js.as_str()));
        Ok((text.map(str::to_owned).ok_or_else(|| format!("cannot find the module \"{name}\"")),))
    })?;
    Ok(linker)
}

/// Evaluates the entry module and all that it imports.
async fn initialise(
    runtime: &Runtime,
    store: &mut Store<Evaluation>,
    instance: &Instance,
    entry: &str,
) -> anyhow::Result<()> {
    type Parameters<'a> = (&'a str, &'a str, Option<&'a str>, bool);
    let init = instance.get_typed_func::<Parameters<'_>, (Result<(), String>,)>(&mut *store, "init")?;
    let source = sdk::entry_module(entry);
    let (result,) = init.call_async(store, (&runtime.shim, &source, Some(sdk::ENTRY), false)).await?;
    result.map_err(|message| anyhow!(message))
}

/// How many workflows the module offers: what `describe` answers, on an instance that is not needed any more.
async fn count_workflows(store: &mut Store<Evaluation>, instance: &Instance) -> anyhow::Result<usize> {
    let missing = || anyhow!("the linked runtime has no `describe`");
    let (_, interface) = instance.get_export(&mut *store, None, WORKFLOWS).ok_or_else(missing)?;
    let (_, describe) = instance.get_export(&mut *store, Some(&interface), "describe").ok_or_else(missing)?;
    let describe = instance.get_func(&mut *store, describe).ok_or_else(missing)?;
    let mut results = [Val::Bool(false)];
    describe.call_async(store, &[], &mut results).await?;
    match &results[0] {
        Val::List(definitions) => Ok(definitions.len()),
        _ => Err(missing()),
    }
}

/// What stopped the evaluation, in the author's terms.
fn explain(evaluation: &Evaluation, error: &anyhow::Error, timeout: Duration) -> BuildError {
    let output = evaluation.output.clone();
    if let Some(thrown) = &evaluation.thrown {
        let mut thrown = thrown.clone();
        let place = thrown.frames().find_map(|(file, line, column)| {
            let module = evaluation.graph.modules.get(file)?;
            let column = typescript::column_in_source(&module.js, line, column);
            Some(Diagnostic::at_line(file, &module.source, line, column))
        });
        thrown.place = place;
        return BuildError::Thrown { thrown, output };
    }
    let entry = &evaluation.graph.entry;
    let message = if evaluation.expired {
        format!(
            "{entry}: top-level code did not end within {timeout:?} and was stopped. It runs once, while the module is \
             built: move long work into a step"
        )
    } else if let Some(refused) = error.downcast_ref::<stubs::Refused>() {
        format!(
            "{entry}: {refused}. Top-level code runs once, while the module is built, and what it reads would be the \
             same in every run: move the call into the workflow"
        )
    } else if error.downcast_ref::<Trap>() == Some(&Trap::StackOverflow) {
        format!("{entry}: top-level code called itself too deeply (stack overflow)")
    } else if error.to_string().contains("resulted in a dead lock") {
        format!("{entry}: a top-level `await` waits for a promise that nothing will settle while the module is built")
    } else {
        let written = String::from_utf8_lossy(&evaluation.written);
        let written = written.lines().filter(|line| !line.starts_with("note:")).collect::<Vec<_>>().join("\n  ");
        let separator = if written.is_empty() { "" } else { "\n  " };
        format!("{entry}: the module could not be evaluated: {}{separator}{written}", error.root_cause())
    };
    BuildError::Stopped { message, output }
}

/// Moves the engine's epoch when the time is up, unless it is dropped before.
struct Alarm {
    /// Dropping it ends the wait.
    _dropped: mpsc::Sender<()>,
}

impl Alarm {
    fn after(runtime: &Runtime, timeout: Duration) -> Self {
        let (alarm, dropped) = mpsc::channel::<()>();
        let engine = runtime.engine.weak();
        thread::spawn(move || {
            if dropped.recv_timeout(timeout) == Err(mpsc::RecvTimeoutError::Timeout)
                && let Some(engine) = engine.upgrade()
            {
                engine.increment_epoch();
            }
        });
        Self { _dropped: alarm }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives a future on this thread. Nothing in it waits for the outside, so no runtime is needed.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
