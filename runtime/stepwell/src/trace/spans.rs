//! A run's entries, folded into spans: the run, its steps in it, their attempts in those. Names of spans are functions of the run, the
//! step and the attempt, so that whichever process goes on with a run goes on with its trace.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};
use stepwell_core::contract::Operation;

use super::fact::{Fact, Failure, What};

/// A trace's name.
pub(super) type TraceId = [u8; 16];
/// A span's.
pub(super) type SpanId = [u8; 8];

/// Something that is over.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    /// In which other span; none of the run.
    pub(super) parent: Option<SpanId>,
    pub(super) name: String,
    /// In ms since the Unix epoch.
    pub(super) begun_ms: u64,
    pub(super) ended_ms: u64,
    pub(super) attributes: Vec<(&'static str, String)>,
    pub(super) failure: Option<Failure>,
}

/// A run as far as it is folded.
#[derive(Debug, Default)]
pub(super) struct RunTrace {
    /// Entries before this one are folded, as far as they are facts.
    next_seq: u64,
    run: String,
    workflow: String,
    digest: String,
    begun_ms: u64,
    steps: HashMap<Operation, Step>,
    over: bool,
}

#[derive(Debug)]
struct Step {
    name: String,
    effect: &'static str,
    begun_ms: u64,
    /// When attempts under way began.
    attempts: HashMap<u32, u64>,
    /// Closed, by the workflow or at the end, while an attempt was under way; its own span has been made.
    closed: bool,
}

/// Names by which whoever looks at a trace finds the run, and the other way round.
const RUN: &str = "stepwell.run";
const STEP: &str = "stepwell.step";

/// The trace of a run: the digits of its name where it has as many, so that it can be told by looking; a digest otherwise.
fn trace_id(run: &str) -> TraceId {
    let digits = run.strip_prefix("run_").filter(|digits| digits.len() == 32);
    let number = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok()).filter(|number| *number != 0);
    number.map_or_else(|| first(&Sha256::digest(run)), u128::to_be_bytes)
}

/// A span of the run: of itself, a step, or a step's attempt.
fn span_id(run: &str, step: Option<&str>, attempt: Option<u32>) -> SpanId {
    let mut digest = Sha256::new();
    for part in [run, step.unwrap_or_default()] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.update(attempt.unwrap_or(0).to_le_bytes());
    first(&digest.finalize())
}

fn first<const N: usize>(digest: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&digest[..N]);
    bytes
}

impl RunTrace {
    /// Whether this entry can follow: the run's beginning is known.
    pub(super) fn takes(&self, seq: u64) -> bool {
        !self.run.is_empty() && seq >= self.next_seq
    }

    /// The run has ended.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Takes an entry in, and gives the spans that are over with it.
    pub(super) fn fold(&mut self, seq: u64, fact: &Fact) -> Vec<Span> {
        if seq < self.next_seq {
            return Vec::new();
        }
        self.next_seq = seq + 1;
        let at_ms = fact.at_ms;
        match &fact.what {
            What::Started { run, workflow, digest } => {
                (self.run, self.workflow, self.digest) = (run.clone(), workflow.clone(), digest.clone());
                self.begun_ms = at_ms;
                Vec::new()
            }
            What::StepBegun { op, step, effect } => {
                let (name, attempts) = (step.clone(), HashMap::new());
                self.steps.insert(*op, Step { name, effect, begun_ms: at_ms, attempts, closed: false });
                Vec::new()
            }
            What::AttemptStarted { op, n } => {
                if let Some(step) = self.steps.get_mut(op) {
                    step.attempts.insert(*n, at_ms);
                }
                Vec::new()
            }
            What::AttemptEnded { op, n, failure, over } => self.attempt_ended(*op, *n, failure.as_ref(), *over, at_ms),
            What::Resolved { op, failure } => {
                self.step_over(*op, "resolved", failure.as_ref(), at_ms).into_iter().collect()
            }
            What::Closed { op } => self.closed(*op, at_ms).into_iter().collect(),
            What::Ended { status, failure } => self.ended(status, failure.as_ref(), at_ms),
            What::Reran => {
                // Steps from before that are still open are shown from their beginning.
                (self.begun_ms, self.over) = (at_ms, false);
                Vec::new()
            }
        }
    }

    fn attempt_ended(&mut self, op: Operation, n: u32, failure: Option<&Failure>, over: bool, at_ms: u64) -> Vec<Span> {
        let Some(step) = self.steps.get_mut(&op) else { return Vec::new() };
        let begun_ms = step.attempts.remove(&n).unwrap_or(at_ms);
        let (name, effect, closed) = (step.name.clone(), step.effect, step.closed);
        let mut spans = vec![Span {
            trace: trace_id(&self.run),
            id: span_id(&self.run, Some(&name), Some(n)),
            parent: Some(span_id(&self.run, Some(&name), None)),
            name: format!("{name} attempt {n}"),
            begun_ms,
            ended_ms: at_ms,
            attributes: vec![
                (RUN, self.run.clone()),
                (STEP, name),
                ("stepwell.attempt", n.to_string()),
                ("stepwell.effect", effect.to_owned()),
            ],
            failure: failure.cloned(),
        }];
        if closed {
            self.forget_if_idle(op);
        } else if over {
            let outcome = if failure.is_some() { "failed" } else { "succeeded" };
            spans.extend(self.step_over(op, outcome, failure, at_ms));
        }
        spans
    }

    fn step_over(&mut self, op: Operation, outcome: &str, failure: Option<&Failure>, at_ms: u64) -> Option<Span> {
        let step = self.steps.remove(&op).filter(|step| !step.closed)?;
        Some(self.step_span(&step, outcome, failure, at_ms))
    }

    /// Workflow code has lost interest. An attempt under way comes to its end by itself.
    fn closed(&mut self, op: Operation, at_ms: u64) -> Option<Span> {
        let step = self.steps.get(&op).filter(|step| !step.closed)?;
        let span = self.step_span(step, "closed", None, at_ms);
        if let Some(step) = self.steps.get_mut(&op) {
            step.closed = true;
        }
        self.forget_if_idle(op);
        Some(span)
    }

    fn forget_if_idle(&mut self, op: Operation) {
        if self.steps.get(&op).is_some_and(|step| step.attempts.is_empty()) {
            self.steps.remove(&op);
        }
    }

    fn step_span(&self, step: &Step, outcome: &str, failure: Option<&Failure>, at_ms: u64) -> Span {
        Span {
            trace: trace_id(&self.run),
            id: span_id(&self.run, Some(&step.name), None),
            parent: Some(span_id(&self.run, None, None)),
            name: step.name.clone(),
            begun_ms: step.begun_ms,
            ended_ms: at_ms,
            attributes: vec![
                (RUN, self.run.clone()),
                (STEP, step.name.clone()),
                ("stepwell.effect", step.effect.to_owned()),
                ("stepwell.outcome", outcome.to_owned()),
            ],
            failure: failure.cloned(),
        }
    }

    fn ended(&mut self, status: &str, failure: Option<&Failure>, at_ms: u64) -> Vec<Span> {
        self.over = true;
        let mut open: Vec<(Operation, Step)> = std::mem::take(&mut self.steps).into_iter().collect();
        open.sort_by_key(|(op, _)| *op);
        let open = open.into_iter().filter(|(_, step)| !step.closed);
        let mut spans: Vec<Span> = open.map(|(_, step)| self.step_span(&step, "open", None, at_ms)).collect();
        spans.push(Span {
            trace: trace_id(&self.run),
            id: span_id(&self.run, None, None),
            parent: None,
            name: self.workflow.clone(),
            begun_ms: self.begun_ms,
            ended_ms: at_ms,
            attributes: vec![
                (RUN, self.run.clone()),
                ("stepwell.workflow", self.workflow.clone()),
                ("stepwell.module", self.digest.clone()),
                ("stepwell.status", status.to_owned()),
            ],
            failure: failure.cloned(),
        });
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN_1: &str = "run_0198c1a2b3c4d5e6f708192a3b4c5d6e";

    fn fold(trace: &mut RunTrace, facts: &[(u64, What)]) -> Vec<Span> {
        let from = trace.next_seq;
        let facts = (from..).zip(facts);
        facts.flat_map(|(seq, (at_ms, what))| trace.fold(seq, &Fact { at_ms: *at_ms, what: what.clone() })).collect()
    }

    fn begun() -> Vec<(u64, What)> {
        let text = str::to_owned;
        vec![
            (10, What::Started { run: text(RUN_1), workflow: text("w"), digest: text("d") }),
            (11, What::StepBegun { op: 1, step: text("charge"), effect: "keyed" }),
            (12, What::AttemptStarted { op: 1, n: 1 }),
        ]
    }

    fn failure() -> Option<Failure> {
        Some(Failure { code: "e".to_owned(), message: "m".to_owned() })
    }

    #[test]
    fn attempts_are_in_their_step_and_that_in_the_run() {
        let mut trace = RunTrace::default();
        let mut facts = begun();
        facts.extend([
            (20, What::AttemptEnded { op: 1, n: 1, failure: failure(), over: false }),
            (30, What::AttemptStarted { op: 1, n: 2 }),
            (40, What::AttemptEnded { op: 1, n: 2, failure: None, over: true }),
            (50, What::Ended { status: "succeeded", failure: None }),
        ]);
        let spans = fold(&mut trace, &facts);
        let seen: Vec<_> = spans.iter().map(|span| (span.name.as_str(), span.begun_ms, span.ended_ms)).collect();
        assert_eq!(
            seen,
            [("charge attempt 1", 12, 20), ("charge attempt 2", 30, 40), ("charge", 11, 40), ("w", 10, 50)]
        );
        assert_eq!(
            spans.iter().map(|span| span.parent).collect::<Vec<_>>(),
            [Some(spans[2].id), Some(spans[2].id), Some(spans[3].id), None]
        );
        assert_eq!((&spans[0].failure, &spans[1].failure), (&failure(), &None));
        assert!(spans.iter().all(|span| span.trace == 0x0198_c1a2_b3c4_d5e6_f708_192a_3b4c_5d6e_u128.to_be_bytes()));
        assert!(trace.is_over());
    }

    #[test]
    fn another_process_goes_on_with_the_same_names() {
        let mut first = RunTrace::default();
        fold(&mut first, &begun());
        let mut second = RunTrace::default();
        fold(&mut second, &begun());
        let end = [(20, What::AttemptEnded { op: 1, n: 1, failure: None, over: true })];
        assert_eq!(fold(&mut first, &end), fold(&mut second, &end));
        // What was folded already is folded once.
        let again = Fact { at_ms: 20, what: end[0].1.clone() };
        assert!(!second.takes(3) && second.fold(3, &again).is_empty());
        assert!(!RunTrace::default().takes(7), "its beginning is not known");
    }

    #[test]
    fn a_step_ends_when_it_is_closed_resolved_or_the_run_is_over() {
        let mut closed = RunTrace::default();
        fold(&mut closed, &begun());
        let late = [
            (20, What::Closed { op: 1 }),
            (21, What::AttemptEnded { op: 1, n: 1, failure: failure(), over: true }),
            (22, What::Ended { status: "cancelled", failure: failure() }),
        ];
        let spans = fold(&mut closed, &late);
        let seen: Vec<_> = spans.iter().map(|span| (span.name.as_str(), span.ended_ms)).collect();
        assert_eq!(seen, [("charge", 20), ("charge attempt 1", 21), ("w", 22)]);
        let mut blocked = RunTrace::default();
        fold(&mut blocked, &begun());
        let resolved = [
            (20, What::AttemptEnded { op: 1, n: 1, failure: failure(), over: false }),
            (99, What::Resolved { op: 1, failure: None }),
        ];
        assert_eq!(fold(&mut blocked, &resolved)[1].ended_ms, 99);
        let mut open = RunTrace::default();
        fold(&mut open, &begun());
        let spans = fold(&mut open, &[(20, What::Ended { status: "terminated", failure: failure() })]);
        assert_eq!(spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["charge", "w"]);
    }

    #[test]
    fn names_of_spans_differ() {
        let ids = [
            span_id("r", None, None),
            span_id("r", Some("s"), None),
            span_id("r", Some("s"), Some(1)),
            span_id("r", Some("s"), Some(2)),
            span_id("rs", None, None),
        ];
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_ne!(trace_id("run_of another kind"), trace_id("run_of a third"));
    }
}
