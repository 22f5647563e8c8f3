//! The arithmetic of retries: for any numbers at all the delay is within what the rules say.

use arbitrary::{Result, Unstructured};
use stepwell_core::contract::RetryFields;
use stepwell_core::error::Retryability;
use stepwell_core::policy::retry::{MAX_ATTEMPTS, MAX_DELAY_MS, RetryPolicy, Verdict};
use stepwell_core::policy::timeout;

use crate::entries::ms;

/// Fields of any value: refused, or a policy whose every delay is in order.
pub fn retry(data: &[u8]) {
    let mut u = Unstructured::new(data);
    while !u.is_empty() {
        if case(&mut u).is_err() {
            return;
        }
    }
}

fn case(u: &mut Unstructured<'_>) -> Result<()> {
    let fields = fields(u)?;
    let given = |policy: &RetryPolicy| {
        assert!(fields.max_attempts.is_none_or(|given| given == policy.max_attempts));
        assert!(fields.initial_ms.is_none_or(|given| given == policy.initial_ms));
        assert!(fields.max_ms.is_none_or(|given| given == policy.max_ms));
    };
    match RetryPolicy::default().overridden(&fields) {
        Ok(policy) => {
            given(&policy);
            delays(&policy, u)?;
        }
        Err(refused) => {
            assert!(!in_range(&fields), "{fields:?}: {refused}");
            return Ok(());
        }
    }
    assert!(in_range(&fields), "{fields:?} is taken");
    let (own, workflow): (Option<u64>, Option<u64>) = (u.arbitrary()?, u.arbitrary()?);
    let default = timeout::step_timeout_ms(None, None).unwrap_or_default();
    let expected = own.or(workflow).unwrap_or(default);
    let ok = (1..=86_400_000).contains(&expected);
    assert_eq!(timeout::step_timeout_ms(own, workflow).ok(), ok.then_some(expected));
    Ok(())
}

fn fields(u: &mut Unstructured<'_>) -> Result<RetryFields> {
    // Mostly in range, or nearly nothing would be.
    let mut fields = crate::entries::policy_fields(u)?;
    match u.int_in_range(0..=9)? {
        0 => fields.max_attempts = Some(u.arbitrary()?),
        1 => fields.max_ms = Some(u.arbitrary()?),
        2 => fields.multiplier = Some(u.arbitrary()?),
        3 => fields.jitter = Some(u.arbitrary()?),
        4 => fields.initial_ms = Some(u.arbitrary()?),
        5 => fields.multiplier = Some(1.0 + f64::from(u.arbitrary::<u32>()?) / f64::from(u32::MAX) * 9.0),
        6 => fields.jitter = Some(f64::from(u.arbitrary::<u32>()?) / f64::from(u32::MAX)),
        _ => {}
    }
    Ok(fields)
}

fn in_range(fields: &RetryFields) -> bool {
    fields.max_attempts.is_none_or(|n| (1..=100).contains(&n))
        && fields.max_ms.is_none_or(|ms| (1..=86_400_000).contains(&ms))
        && fields.multiplier.is_none_or(|m| (1.0..=10.0).contains(&m))
        && fields.jitter.is_none_or(|j| (0.0..=1.0).contains(&j))
}

fn delays(policy: &RetryPolicy, u: &mut Unstructured<'_>) -> Result<()> {
    let random = match u.int_in_range(0..=2)? {
        0 => 0,
        1 => u64::MAX,
        _ => u.arbitrary()?,
    };
    let failure = if u.arbitrary()? { u.int_in_range(1..=MAX_ATTEMPTS)? } else { u.arbitrary::<u32>()?.max(1) };
    let (base, delay) = (policy.base_delay_ms(failure), policy.delay_ms(failure, random));
    let shown = format!("{policy:?}, failure {failure}, random {random}: base {base}, delay {delay}");
    assert!(base <= policy.max_ms && delay <= base, "{shown}");
    assert_eq!(delay == 0, base == 0, "{shown}");
    assert!(policy.initial_ms != 0 || base == 0, "{shown}");
    assert!(policy.initial_ms == 0 || base != 0, "{shown}");
    assert!(failure == 1 || base >= policy.base_delay_ms(failure - 1), "{shown}: shorter than the one before");
    // Floats have 53 bits.
    let least = base as f64 * (1.0 - policy.jitter) * (1.0 - 1e-9) - 1.0;
    assert!(delay as f64 >= least, "{shown}");
    if failure <= MAX_ATTEMPTS {
        let grown = (1..failure).fold(policy.initial_ms as f64, |ms, _| (ms * policy.multiplier).min(1e30));
        let expected = grown.min(policy.max_ms as f64);
        assert!((base as f64 - expected).abs() <= 1.0 + expected * 1e-9, "{shown}: by hand {expected}");
    }
    verdicts(policy, failure, random, ms(u, u64::MAX)?);
    Ok(())
}

fn verdicts(policy: &RetryPolicy, failure: u32, random: u64, after_ms: u64) {
    let next = |retryability| policy.after_failure(failure, retryability, random);
    assert_eq!(next(Retryability::Never), Verdict::GiveUp);
    let (retry, after) = (next(Retryability::Retry), next(Retryability::AfterMs(after_ms)));
    if failure >= policy.max_attempts {
        assert_eq!((retry, after), (Verdict::GiveUp, Verdict::GiveUp));
    } else {
        assert_eq!(retry, Verdict::RetryIn(policy.delay_ms(failure, random)));
        assert_eq!(after, Verdict::RetryIn(after_ms.min(MAX_DELAY_MS)));
    }
}
