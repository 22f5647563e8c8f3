//! Pieces of runs made from an input: values, errors, policies, whole entries. All are such as the machine would write.

use arbitrary::{Result, Unstructured};
use stepwell_core::contract::{EffectClass, Evidence, RetryFields};
use stepwell_core::error::{Cause, Error, Retryability};
use stepwell_core::ids::{Digest, RunId, StepId};
use stepwell_core::journal::entry::{
    Asked, AttemptOutcome, ChildBegun, Dispatched, Entry, Next, Record, RecordedAnswer, Reply, Reran, Resolution,
    Restored, RunOutcome, Started, StepBegun,
};
use stepwell_core::json::Json;
use stepwell_core::policy::retry::{MAX_DELAY_MS, RetryPolicy};

/// JSON texts that a reader could stumble over.
const VALUES: &[&str] = &[
    "null",
    "0",
    "-0",
    "1e400",
    "0.1",
    "9007199254740993",
    "\"\"",
    r#""\u0000""#,
    r#""\ud800 \udc00\ud83d\ude00""#,
    r#"{"a":1,"a":2,"":[ ]}"#,
    "[[[[[[[[]]]]]]]]",
    "{\"e\":{\"started\":{}}}",
];

/// A JSON value: one of those above, or a text of the input's own.
///
/// # Errors
/// Where the input is used up.
pub fn json(u: &mut Unstructured<'_>) -> Result<Json> {
    let text = match u.int_in_range(0..=3)? {
        0..=1 => (*u.choose(VALUES)?).to_owned(),
        2 => serde_json::Value::from(text(u)?).to_string(),
        _ => "[".repeat(300) + &"]".repeat(300),
    };
    Ok(Json::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}")))
}

/// A text, mostly short, of any characters.
///
/// # Errors
/// Where the input is used up.
pub fn text(u: &mut Unstructured<'_>) -> Result<String> {
    let length = u.int_in_range(0..=12)?;
    let chars = (0..length).map(|_| {
        Ok(match u.int_in_range(0..=4)? {
            0 => *u.choose(&['\0', '\u{7f}', '#', '%', ':', '!', '"', '\\', '\u{feff}', '\u{2028}'])?,
            1 => u.arbitrary()?,
            _ => *u.choose(&['a', 'b', 'é', '支', '😀'])?,
        })
    });
    chars.collect()
}

/// A time or a length, in ms: of every size below `max`.
///
/// # Errors
/// Where the input is used up.
pub fn ms(u: &mut Unstructured<'_>, max: u64) -> Result<u64> {
    let bits = u.int_in_range(0..=63)?;
    Ok(u.arbitrary::<u64>()? >> bits & max)
}

/// An error within the limits.
///
/// # Errors
/// Where the input is used up.
pub fn error(u: &mut Unstructured<'_>) -> Result<Error> {
    let code = (*u.choose(&[
        "workflows.step_failed",
        "workflows.http_status",
        "workflows.cancelled",
        "workflows.trap",
        "shop.declined",
        "",
    ])?)
    .to_owned();
    let optional = |u: &mut Unstructured<'_>| Ok(if u.arbitrary()? { Some(text(u)?) } else { None });
    let name = optional(u)?;
    let causes = (0..u.int_in_range(0..=2)?).map(|_| Ok(Cause { name: optional(u)?, message: text(u)? }));
    let causes = causes.collect::<Result<_>>()?;
    let retryability = match u.int_in_range(0..=4)? {
        0 => Retryability::Never,
        1 => Retryability::AfterMs(ms(u, u64::MAX)?.min(MAX_DELAY_MS)),
        _ => Retryability::Retry,
    };
    let details = if u.ratio(1, 4)? { Some(json(u)?) } else { None };
    Ok(Error { code, name, message: text(u)?, details, causes, retryability, outcome_unknown: false }.bounded())
}

/// Fields of a policy within their ranges; some left out.
///
/// # Errors
/// Where the input is used up.
pub fn policy_fields(u: &mut Unstructured<'_>) -> Result<RetryFields> {
    Ok(RetryFields {
        max_attempts: if u.arbitrary()? { Some(u.int_in_range(1..=6)?) } else { None },
        initial_ms: if u.arbitrary()? { Some(ms(u, u64::MAX)?) } else { None },
        max_ms: if u.ratio(1, 3)? { Some(ms(u, u64::MAX)?.clamp(1, MAX_DELAY_MS)) } else { None },
        multiplier: if u.arbitrary()? { Some(*u.choose(&[1.0, 1.5, 2.0, 10.0])?) } else { None },
        jitter: if u.arbitrary()? { Some(*u.choose(&[0.0, 0.2, 0.999_999, 1.0])?) } else { None },
    })
}

/// A class.
///
/// # Errors
/// Where the input is used up.
pub fn class(u: &mut Unstructured<'_>) -> Result<EffectClass> {
    Ok(*u.choose(&[EffectClass::Repeatable, EffectClass::Keyed, EffectClass::Once])?)
}

/// A run's beginning.
///
/// # Errors
/// Where the input is used up.
pub fn started(u: &mut Unstructured<'_>) -> Result<Started> {
    Ok(Started {
        run: RunId::new("run_1"),
        workflow: text(u)?,
        digest: Digest::of(b"module"),
        input: json(u)?,
        retry: policy(u)?,
        step_timeout_ms: if u.arbitrary()? { Some(ms(u, 86_399_999)?.max(1)) } else { None },
        deadline_ms: if u.ratio(1, 8)? { Some(crate::machine::START_MS + ms(u, 0xffff_ffff)?) } else { None },
        parent: None,
        continues: None,
    })
}

fn policy(u: &mut Unstructured<'_>) -> Result<RetryPolicy> {
    let fields = policy_fields(u)?;
    Ok(RetryPolicy::default().overridden(&fields).unwrap_or_else(|error| panic!("{fields:?}: {error}")))
}

/// How far a request got.
///
/// # Errors
/// Where the input is used up.
pub fn evidence(u: &mut Unstructured<'_>) -> Result<Evidence> {
    Ok(match u.int_in_range(0..=3)? {
        0 => Evidence::NotSent,
        1 => Evidence::Sent,
        2 => Evidence::Answered(u.int_in_range(200..=599)?),
        _ => Evidence::Answered(*u.choose(&[200, 201, 302, 307, 400, 408, 409, 422, 425, 429, 500, 503, 504])?),
    })
}

/// Any entry; not one that could follow another.
///
/// # Errors
/// Where the input is used up.
pub fn entry(u: &mut Unstructured<'_>) -> Result<Entry> {
    let at_ms = u.arbitrary()?;
    Ok(Entry { at_ms, record: record(u)? })
}

fn record(u: &mut Unstructured<'_>) -> Result<Record> {
    let op = u.arbitrary()?;
    let n = u.arbitrary()?;
    Ok(match u.int_in_range(0..=15)? {
        0 => Record::Started(started(u)?),
        1 => Record::StepBegun(StepBegun {
            op,
            step: StepId { name: text(u)?, occurrence: n },
            retry: policy(u)?,
            timeout_ms: u.arbitrary()?,
            effect: class(u)?,
            key_ttl_ms: u.arbitrary()?,
        }),
        2 => Record::SleepBegun { op, ms: u.arbitrary()?, due_ms: u.arbitrary()? },
        3 => Record::WaitBegun { op, name: text(u)?, due_ms: u.arbitrary()? },
        4 if u.ratio(1, 3)? => Record::ChildBegun(Box::new(ChildBegun {
            op,
            run: RunId::new(text(u)?),
            workflow: text(u)?,
            input: json(u)?,
            detached: u.arbitrary()?,
            abandoned: u.arbitrary()?,
            run_key: if u.arbitrary()? { Some(text(u)?) } else { None },
            tags: if u.arbitrary()? { vec![(text(u)?, text(u)?)] } else { Vec::new() },
        })),
        4 if u.ratio(1, 4)? => Record::ChildBegunAgain { op, run: RunId::new(text(u)?) },
        4 if u.ratio(1, 3)? => Record::ContinuedAsNew { input: json(u)? },
        4 if u.arbitrary()? => Record::SendBegun { op, to: RunId::new(text(u)?), name: text(u)?, payload: json(u)? },
        4 => Record::Closed { op },
        5 => Record::Delivered { op },
        6 => Record::CancelDelivered,
        7 => Record::AttemptStarted { op, n, deadline_ms: u.arbitrary()? },
        8 => Record::AttemptEnded { op, n, outcome: outcome(u)? },
        9 => Record::Dispatched(dispatched(u, op, n)?),
        10 => Record::Settled { op, effect: n, evidence: evidence(u)?, answer: answer(u)? },
        11 => Record::TimerFired { op },
        12 => Record::EventArrived { id: u.arbitrary()?, name: text(u)?, payload: json(u)? },
        13 => asked(u, op)?,
        14 => match u.int_in_range(0..=6)? {
            0 => Record::Resumed,
            3 => Record::ReplyArrived { id: u.arbitrary()?, op, reply: Reply::Succeeded(json(u)?) },
            4 => Record::ReplyArrived { id: u.arbitrary()?, op, reply: Reply::Failed(error(u)?) },
            5 => Record::Restored(Restored { epoch: text(u)?, in_doubt: u.arbitrary()?, by: text(u)? }),
            6 => Record::NothingFollowed { evidence: text(u)?, by: text(u)? },
            1 => Record::WaitExpired { op },
            _ => Record::Repinned { digest: Digest::of(b"another") },
        },
        _ => Record::Ended { outcome: run_outcome(u)?, returned: u.arbitrary()? },
    })
}

/// What a person has asked of the run.
fn asked(u: &mut Unstructured<'_>, op: u32) -> Result<Record> {
    let by = text(u)?;
    Ok(match u.int_in_range(0..=6)? {
        0 => Record::CancelRequested { error: error(u)?, by: u.arbitrary::<bool>()?.then_some(by) },
        1 => Record::TerminateRequested { error: error(u)?, by },
        2 => Record::Paused { reason: text(u)?, by },
        3 => Record::Unpaused { by },
        4 => Record::Rewound { to: u.arbitrary()?, reason: text(u)?, by },
        5 => Record::Reran(Box::new(Reran {
            of: RunId::new(text(u)?),
            step: StepId { name: text(u)?, occurrence: u.arbitrary()? },
            to: u.arbitrary()?,
            digest: Digest::of(b"m"),
            deadline_ms: u.arbitrary()?,
            reason: text(u)?,
            by,
        })),
        _ => Record::Resolved { op, resolution: resolution(u)?, evidence: text(u)?, by },
    })
}

fn resolution(u: &mut Unstructured<'_>) -> Result<Resolution> {
    Ok(match u.int_in_range(0..=2)? {
        0 => Resolution::Succeeded(json(u)?),
        1 => Resolution::Failed(error(u)?),
        _ => Resolution::Retry { renewed: u.arbitrary()? },
    })
}

fn outcome(u: &mut Unstructured<'_>) -> Result<AttemptOutcome> {
    if u.arbitrary()? {
        return Ok(AttemptOutcome::Succeeded(json(u)?));
    }
    let next = match u.int_in_range(0..=2)? {
        0 => Next::Retry { due_ms: u.arbitrary()?, alone: u.arbitrary()? },
        1 => Next::GiveUp,
        _ => Next::Unknown,
    };
    Ok(AttemptOutcome::Failed { error: error(u)?, next })
}

fn run_outcome(u: &mut Unstructured<'_>) -> Result<RunOutcome> {
    Ok(match u.int_in_range(0..=4)? {
        4 => RunOutcome::Continued(RunId::new(text(u)?)),
        0 => RunOutcome::Succeeded(json(u)?),
        1 => RunOutcome::Failed(error(u)?),
        2 => RunOutcome::Terminated(error(u)?),
        _ => RunOutcome::Cancelled(error(u)?),
    })
}

fn dispatched(u: &mut Unstructured<'_>, op: u32, n: u32) -> Result<Dispatched> {
    let what = Asked {
        method: text(u)?,
        url: text(u)?,
        label: if u.arbitrary()? { Some(text(u)?) } else { None },
        body: if u.arbitrary()? { Some(Digest::of(b"body")) } else { None },
    };
    let key = if u.arbitrary()? { Some(text(u)?) } else { None };
    Ok(Dispatched { op, n, effect: u.arbitrary()?, key, what, renew_on: u.arbitrary()? })
}

fn answer(u: &mut Unstructured<'_>) -> Result<Option<RecordedAnswer>> {
    if u.arbitrary()? {
        return Ok(None);
    }
    let headers = (0..u.int_in_range(0..=2)?).map(|_| Ok((text(u)?, text(u)?))).collect::<Result<_>>()?;
    let body = if u.arbitrary()? { u.arbitrary()? } else { text(u)?.into_bytes() };
    Ok(Some(RecordedAnswer { headers, body }))
}
