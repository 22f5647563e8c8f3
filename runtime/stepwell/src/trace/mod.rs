//! Traces: what runs do, as spans for an OpenTelemetry collector. Made from what the journal says, once it is durable, and never in a
//! run's way: what a queue has no room for is left out.
//!
//! Entries come from the engine's tap as facts without values (`fact.rs`); a thread folds them into spans (`spans.rs`), and a task
//! sends those (`export.rs`).

mod export;
mod fact;
mod spans;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use clap::Args;
use hashlink::LruCache;
use stepwell_core::journal::codec;
use stepwell_engine::store::{Reads, RunKey, Store};
use stepwell_engine::{Engine, Tap};
use tokio::sync::{mpsc, oneshot};

use export::Exporter;
use fact::Fact;
use spans::{RunTrace, Span};

/// Where spans go.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// An OpenTelemetry collector: runs, steps and attempts are sent to it as spans (OTLP over HTTP, JSON). Without a path it is
    /// /v1/traces there. Off where it is left out.
    #[arg(long = "otlp", value_name = "URL", env = "STEPWELL_OTLP_URL")]
    url: Option<String>,
}

/// Entries that may wait to be folded.
const MAX_FACTS: usize = 16_384;
/// Spans that may wait to be sent.
const MAX_SPANS: usize = 16_384;
/// Runs that are remembered; others are read from their journals when they go on.
const MAX_RUNS: usize = 10_000;
/// How long the end waits for what is still to be sent.
const LAST_WORDS: Duration = Duration::from_secs(3);

enum Told {
    Fact(RunKey, u64, Fact),
    /// Nothing follows.
    End,
}

/// Traces of this process.
pub(crate) struct Tracing {
    exporter: Exporter,
    facts: (SyncSender<Told>, Receiver<Told>),
    /// Entries that found no room.
    missed: Arc<AtomicU64>,
    /// The same, and spans that were not sent.
    dropped: Arc<AtomicU64>,
}

/// The same, under way.
pub(crate) struct Traced {
    facts: SyncSender<Told>,
    sent: oneshot::Receiver<()>,
    dropped: Arc<AtomicU64>,
}

impl TraceArgs {
    /// What is to be traced, if anything is.
    ///
    /// # Errors
    /// When the address is none.
    pub(crate) fn tracing(&self) -> anyhow::Result<Option<Tracing>> {
        let Some(url) = self.url.as_deref().filter(|url| !url.is_empty()) else { return Ok(None) };
        let exporter = Exporter::new(url)?;
        Ok(Some(Tracing { exporter, facts: sync_channel(MAX_FACTS), missed: Arc::default(), dropped: Arc::default() }))
    }
}

impl Tracing {
    /// What the engine tells entries to.
    pub(crate) fn tap(&self) -> Tap {
        let (facts, missed, dropped) = (self.facts.0.clone(), self.missed.clone(), self.dropped.clone());
        Tap::new(move |run, seq, entry| {
            if let Some(fact) = Fact::of(entry)
                && let Err(TrySendError::Full(_)) = facts.try_send(Told::Fact(run, seq, fact))
            {
                missed.fetch_add(1, Ordering::Release);
                drop_spans(&dropped, 1);
            }
        })
    }

    /// Begins. The engine has the tap.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(crate) fn start(self, engine: &Engine) -> anyhow::Result<Traced> {
        let Self { exporter, facts: (facts, told), missed, dropped } = self;
        let (spans, to_send) = mpsc::channel(MAX_SPANS);
        let (done, sent) = oneshot::channel();
        let folding = Folding {
            store: Arc::downgrade(engine.store()),
            runs: LruCache::new(MAX_RUNS),
            spans,
            missed: (missed, 0),
            dropped: dropped.clone(),
        };
        std::thread::Builder::new().name("traces".to_owned()).spawn(move || folding.run(&told))?;
        let lost = dropped.clone();
        tokio::spawn(async move {
            exporter.run(to_send, |n| drop_spans(&lost, n)).await;
            let _ = done.send(());
        });
        Ok(Traced { facts, sent, dropped })
    }
}

impl Traced {
    /// Sends what there is, as far as that is soon done. Nothing is traced any more.
    pub(crate) async fn end(self) {
        let Self { facts, sent, dropped } = self;
        // Where the queue is full its thread is behind, and what it has is not waited for.
        if facts.try_send(Told::End).is_ok() {
            let _ = tokio::time::timeout(LAST_WORDS, sent).await;
        }
        match dropped.load(Ordering::Relaxed) {
            0 => {}
            n => tracing::warn!(n, "spans or entries were left out of the traces"),
        }
    }
}

/// The first is said at once: whoever looks at traces should know that there are gaps.
fn drop_spans(dropped: &AtomicU64, n: u64) {
    if dropped.fetch_add(n, Ordering::Relaxed) == 0 {
        tracing::warn!("traces have gaps: the collector does not take spans, or more come than can be sent");
    }
}

/// Turns entries into spans.
struct Folding {
    /// Not kept open by this.
    store: Weak<dyn Store>,
    runs: LruCache<RunKey, RunTrace>,
    spans: mpsc::Sender<Span>,
    /// Entries that were left out, and how many of them it has noticed.
    missed: (Arc<AtomicU64>, u64),
    dropped: Arc<AtomicU64>,
}

impl Folding {
    fn run(mut self, told: &Receiver<Told>) {
        while let Ok(Told::Fact(run, seq, fact)) = told.recv() {
            for span in self.fold(run, seq, &fact) {
                if let Err(mpsc::error::TrySendError::Full(_)) = self.spans.try_send(span) {
                    drop_spans(&self.dropped, 1);
                }
            }
        }
    }

    fn fold(&mut self, run: RunKey, seq: u64, fact: &Fact) -> Vec<Span> {
        // Whose they were nobody knows: every run is read from its journal again.
        let missed = self.missed.0.load(Ordering::Acquire);
        if missed != self.missed.1 {
            self.missed.1 = missed;
            self.runs.clear();
        }
        let known = self.runs.get(&run).is_some_and(|trace| trace.takes(seq));
        if !known {
            // The first that is heard of it: its journal has all that was before.
            match self.store.upgrade().and_then(|store| load(store.read(), run, seq)) {
                Some(trace) => self.runs.insert(run, trace),
                None => return Vec::new(),
            };
        }
        let Some(trace) = self.runs.get_mut(&run) else { return Vec::new() };
        let spans = trace.fold(seq, fact);
        if trace.is_over() {
            self.runs.remove(&run);
        }
        spans
    }
}

/// Entries that are read at once.
const PAGE: u32 = 1_000;

/// The run as its journal has it before entry `to`.
fn load(reads: &dyn Reads, run: RunKey, to: u64) -> Option<RunTrace> {
    let (mut trace, mut next) = (RunTrace::default(), 0);
    while next < to {
        let page = reads.entries(run, next, PAGE);
        let page = page.inspect_err(|error| tracing::warn!(run, %error, "a run cannot be traced")).ok()?;
        let last = page.last()?.0;
        for (seq, bytes) in page.into_iter().filter(|(seq, _)| *seq < to) {
            if let Some(fact) = Fact::of(&codec::decode(seq, &bytes).ok()?) {
                let _ = trace.fold(seq, &fact);
            }
        }
        next = last + 1;
    }
    Some(trace)
}
