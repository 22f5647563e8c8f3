//! What guests and the world give, in order and out of it.

use arbitrary::{Result, Unstructured};
use stepwell_core::contract::{Approval, EffectKey, Evidence, Operation, Request, Response, StepOptions};
use stepwell_core::error::{Code, Error};

use super::script::Command;
use crate::entries::{class, error, evidence, ms, policy_fields, text};

const NAMES: &[&str] = &["a", "b", "charge", "a#2", "支払い"];
const EVENTS: &[&str] = &["paid", "shipped"];

/// A command of workflow code; now and then one that must be refused.
pub(super) fn command(u: &mut Unstructured<'_>, operations: u32) -> Result<Command> {
    Ok(match u.int_in_range(0..=9)? {
        0..=3 => Command::Step(name(u, NAMES)?, options(u)?),
        4..=5 => Command::Sleep(length(u)?),
        6 => Command::Wait(name(u, EVENTS)?, if u.arbitrary()? { Some(length(u)?) } else { None }),
        7..=8 => Command::Close(operation(u, operations)?),
        _ => Command::Look,
    })
}

/// One of the run's operations, mostly.
pub(super) fn operation(u: &mut Unstructured<'_>, operations: u32) -> Result<Operation> {
    if u.ratio(1, 10)? { u.arbitrary() } else { u.int_in_range(0..=operations) }
}

fn name(u: &mut Unstructured<'_>, names: &[&str]) -> Result<String> {
    Ok(if u.ratio(1, 20)? { text(u)?.repeat(u.int_in_range(0..=30)?) } else { (*u.choose(names)?).to_owned() })
}

/// A time, in ms; now and then one that is too long.
pub(super) fn length(u: &mut Unstructured<'_>) -> Result<u64> {
    let max = if u.ratio(1, 12)? { u64::MAX } else { 0x3_ffff };
    ms(u, max)
}

fn options(u: &mut Unstructured<'_>) -> Result<StepOptions> {
    let mut options = StepOptions {
        retry: policy_fields(u)?,
        timeout_ms: if u.arbitrary()? { Some(ms(u, 0xffff)?.max(1)) } else { None },
        effect: Some(class(u)?),
        key_ttl_ms: if u.ratio(1, 4)? { Some(ms(u, 0xffff)?.max(1)) } else { None },
        ..StepOptions::default()
    };
    match u.int_in_range(0..=40)? {
        0 => options.reconciles = true,
        1 => options.operation_key = Some(text(u)?),
        2 => options.approval = Some(Approval { reason: text(u)?, expires_ms: u.arbitrary()? }),
        3 => options.reserve = Some((text(u)?, u.arbitrary()?)),
        4 => options.timeout_ms = u.arbitrary()?,
        5 => options.key_ttl_ms = u.arbitrary()?,
        6 => options.retry.multiplier = u.arbitrary()?,
        7 => options.retry.max_attempts = u.arbitrary()?,
        _ => {}
    }
    Ok(options)
}

/// A request, much like others.
pub(super) fn request(u: &mut Unstructured<'_>) -> Result<Request> {
    let methods = &["POST", "POST", "POST", "PUT", "DELETE", "PATCH", "GET", "HEAD"];
    let method = if u.ratio(1, 30)? { text(u)? } else { (*u.choose(methods)?).to_owned() };
    let key = match u.int_in_range(0..=12)? {
        0..=8 => EffectKey::Effect,
        9 => EffectKey::Attempt,
        10 => EffectKey::Operation,
        11 => EffectKey::None,
        _ => EffectKey::Custom((*u.choose(&["own 1", "own 2", " none ", ""])?).to_owned()),
    };
    Ok(Request {
        method,
        url: (*u.choose(&["https://pay.example/a", "https://pay.example/b"])?).to_owned(),
        headers: Vec::new(),
        body: u.choose(&[None, Some("1"), Some("2")])?.map(Into::into),
        timeout_ms: if u.ratio(1, 8)? { Some(ms(u, 0xffff)?) } else { None },
        key,
        label: u.choose(&[None, None, None, Some("x"), Some("y")])?.map(str::to_owned),
        renew_on: if u.ratio(1, 6)? { vec![500, 409] } else { Vec::new() },
    })
}

/// How a request ended, as the host may say it.
pub(super) fn settlement(u: &mut Unstructured<'_>) -> Result<(Evidence, std::result::Result<Response, Error>)> {
    let evidence = evidence(u)?;
    let answer = match evidence {
        Evidence::NotSent => Err(Error::new(Code::ConnectFailed, "connection refused")),
        Evidence::Sent => Err(Error::new(Code::RequestFailed, "the connection broke before the answer")),
        Evidence::Answered(_) if u.ratio(1, 10)? => Err(Error::new(Code::ResponseTooLarge, "too large")),
        Evidence::Answered(status) => {
            let length = if u.ratio(1, 20)? { 300 << 10 } else { 3 };
            let headers = vec![("x-a".to_owned(), text(u)?)];
            Ok(Response { status, headers, body: vec![u.arbitrary()?; length], recorded: false })
        }
    };
    Ok((evidence, answer))
}

/// What takes an instance down.
pub(super) fn trap(u: &mut Unstructured<'_>) -> Result<Error> {
    let codes = &[
        Code::Trap,
        Code::MemoryLimit,
        Code::StackOverflow,
        Code::TurnTimeout,
        Code::StepTimeout,
        Code::InvocationLost,
    ];
    Ok(Error::new(*u.choose(codes)?, "the guest trapped"))
}

/// How a body or the workflow ends.
pub(super) fn outcome(u: &mut Unstructured<'_>) -> Result<std::result::Result<stepwell_core::json::Json, Error>> {
    Ok(if u.arbitrary()? { Ok(crate::entries::json(u)?) } else { Err(error(u)?) })
}

/// The name of an event.
pub(super) fn event(u: &mut Unstructured<'_>) -> Result<String> {
    Ok((*u.choose(EVENTS)?).to_owned())
}
