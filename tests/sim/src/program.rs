//! What a scripted guest does, as data. The generator makes these from a seed; the interpreter runs them.

use std::rc::Rc;

use stepwell_core::contract::{EffectClass, EffectKey, RetryFields};

/// A workflow and what comes to it from outside.
#[derive(Debug, Clone)]
pub struct Program {
    /// The workflow's code.
    pub main: Vec<Stmt>,
    /// What it does after it was cancelled and has failed.
    pub cleanup: Vec<Stmt>,
    /// What it does after it has failed otherwise, before it says so.
    pub rescue: Vec<Stmt>,
    /// The run's time-out, in ms.
    pub run_timeout_ms: Option<u64>,
    /// Events that come, in order of time: ms after the start, and the name.
    pub events: Vec<(u64, &'static str)>,
    /// The share of requests that the world makes difficulties for.
    pub trouble: f64,
    /// What people ask of the run, in order: when, in ms since its beginning.
    pub asks: Vec<(u64, Ask)>,
}

/// A statement of workflow code.
#[derive(Debug, Clone)]
pub enum Stmt {
    /// Begins an operation and awaits it.
    Do(Operation),
    /// Begins an operation that nobody awaits here; it has a number in the workflow's own list.
    Start(Operation),
    /// Awaits the n-th of the started ones (modulo their number).
    Join(usize),
    /// Branches side by side. `fail_fast`: the first error is thrown at once, and the others are left alone.
    All {
        /// Each a piece of workflow code.
        branches: Vec<Vec<Stmt>>,
        /// As `Promise.all` does, in place of `Promise.allSettled`.
        fail_fast: bool,
    },
    /// Begins all, awaits the first, closes the others (some, if `close_all` is not set; and the winner too: that changes nothing).
    Race {
        /// The contestants.
        contestants: Vec<Operation>,
        /// Whether every loser is closed.
        close_all: bool,
    },
    /// Begins a wait for each, then closes them, in the same turn or after a sleep.
    Abandon {
        /// What is begun.
        operations: Vec<Operation>,
        /// How long after, in ms; none closes at once.
        after_ms: Option<u64>,
    },
    /// Reads clock and chance, remembers both, and goes one of two ways.
    Chance {
        /// Where chance is even.
        even: Vec<Stmt>,
        /// Where it is odd.
        odd: Vec<Stmt>,
    },
    /// Sleeps and measures it.
    Measure(u64),
    /// Writes a log line.
    Log,
    /// Ends the run, so that another goes on.
    Continue,
    /// Awaits what nobody settles.
    Forever,
    /// Takes the instance down, with this probability in percent.
    Trap(u8),
    /// Throws.
    Throw,
}

/// What people ask of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// To cancel.
    Cancel,
    /// To end at once.
    Terminate,
    /// To pause.
    Pause,
    /// To go on.
    Resume,
    /// To be taken up again, once it has failed.
    Retry,
}

/// An operation, and what is done with its failure.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Which.
    pub kind: OperationKind,
    /// Whether its failure is caught.
    pub caught: bool,
}

/// What begins.
#[derive(Debug, Clone)]
pub enum OperationKind {
    /// A step.
    Step(Rc<StepPlan>),
    /// A sleep, in ms.
    Sleep(u64),
    /// A wait for an event of that name, in ms.
    Wait(&'static str, Option<u64>),
    /// An event of that name to another run.
    Send(&'static str),
    /// A child run.
    Child {
        /// It is over when it has started.
        detached: bool,
        /// It goes on when its parent ends.
        abandoned: bool,
        /// How long it takes, in ms.
        takes_ms: u64,
    },
}

/// A step: options, and a body for each attempt.
#[derive(Debug, Clone)]
pub struct StepPlan {
    /// Its name; not its own alone.
    pub name: String,
    /// Its class.
    pub class: EffectClass,
    /// Its policy.
    pub retry: RetryFields,
    /// How long an attempt may take, in ms.
    pub timeout_ms: u64,
    /// How long the other side knows a key, in ms.
    pub key_ttl_ms: u64,
    /// The bodies of the attempts; the last one is repeated.
    pub bodies: Vec<Body>,
}

/// What an attempt does.
#[derive(Debug, Clone)]
pub struct Body {
    /// In order.
    pub acts: Vec<Act>,
    /// At last.
    pub end: End,
    /// Goes on after it was told to stop, and answers late.
    pub stubborn: bool,
}

/// A piece of a body.
#[derive(Debug, Clone)]
pub enum Act {
    /// Sends and awaits the answer.
    Send(Call),
    /// Sends all, then awaits all.
    SendAll(Vec<Call>),
    /// Sends and does not wait.
    Fire(Call),
    /// Sends, and waits for the answer no longer than that, in ms.
    SendOrDelay(Call, u64),
    /// Sends, gives up after so many ms, and asks for the same again.
    GiveUpAndRepeat(Call, u64),
    /// Waits, in ms.
    Delay(u64),
    /// Awaits a token that the bodies of an instance share; the first to need it fetches it.
    Token,
    /// Awaits the n-th operation of the workflow (modulo their number), if that is not its own.
    Sibling(usize),
    /// Tries what a body must not; only where a body begins.
    Misuse,
    /// Writes a log line.
    Log,
    /// Reads clock and chance; only where a body begins.
    Chance,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method.
    pub method: &'static str,
    /// Which URL.
    pub url: u8,
    /// Which body; none has none.
    pub body: Option<u8>,
    /// The body's bytes differ from attempt to attempt.
    pub drifting: bool,
    /// The key.
    pub key: EffectKey,
    /// The label.
    pub label: Option<u8>,
    /// How long to wait for the answer, in ms.
    pub timeout_ms: Option<u64>,
    /// 500 means that nothing was done.
    pub renew_on_500: bool,
    /// What a failure leads to.
    pub then: Then,
}

/// What a body makes of a failed request.
#[derive(Debug, Clone, Copy)]
pub enum Then {
    /// It fails with it.
    Fail,
    /// It goes on.
    Ignore,
    /// It sends the same again, at most so often, then fails.
    Repeat(u8),
}

/// How a body ends.
#[derive(Debug, Clone, Copy)]
pub enum End {
    /// With a result.
    Return,
    /// With an error that is retried by the policy.
    Fail,
    /// With an error that is not retried.
    FailForGood,
    /// With an error that is retried after so many ms.
    FailAfter(u64),
    /// It takes the instance down.
    Trap,
    /// A turn of it takes too long.
    Overrun,
    /// Not at all.
    Hang,
    /// With a result, twice.
    ReturnTwice,
}
