//! Keys: any name makes keys that a header can carry, and two things never have the same one.

use std::collections::BTreeMap;

use arbitrary::{Result, Unstructured};
use stepwell_core::ids::{RunId, StepId};
use stepwell_core::policy::key::{effect_key, idempotency_key, is_valid_custom, operation_key};

use crate::entries::text;

/// A handful of names, and all of their keys.
pub fn keys(data: &[u8]) {
    if let Ok(own) = std::str::from_utf8(data) {
        let printable = own.chars().all(|c| (' '..='~').contains(&c)) && !own.starts_with(' ') && !own.ends_with(' ');
        assert_eq!(is_valid_custom(own), printable && (1..=255).contains(&own.len()), "{own:?}");
    }
    let mut seen = BTreeMap::new();
    let mut u = Unstructured::new(data);
    while !u.is_empty() {
        let Ok((run, step, n)) = place(&mut u) else { return };
        let epoch = [None, Some("7f"), Some("80")][n as usize % 3];
        for (key, what) in [
            (operation_key(&run, &step, epoch), format!("operation {run} {step:?} {epoch:?}")),
            (idempotency_key(&run, &step, epoch, n), format!("attempt {n} {run} {step:?} {epoch:?}")),
            (effect_key(&run, &step, epoch, n), format!("effect {n} {run} {step:?} {epoch:?}")),
        ] {
            assert!((1..=255).contains(&key.len()) && is_valid_custom(&key), "{key:?}");
            assert!(!key.contains(' '), "{key:?}");
            let first = seen.entry(key.clone()).or_insert_with(|| what.clone());
            assert_eq!(*first, what, "both have the key {key}");
        }
        let uncut = operation_key(&run, &step, None);
        if !uncut.contains('!') {
            name_is_in(&uncut, &run, &step);
        }
    }
}

fn place(u: &mut Unstructured<'_>) -> Result<(RunId, StepId, u32)> {
    let run = RunId::new(*u.choose(&["run_1", "run_0198c1a2b3c4d5e6f708192a3b4c5d6e"])?);
    let name = text(u)?.repeat(u.int_in_range(1..=20)?);
    let small = |u: &mut Unstructured<'_>| {
        Ok(if u.ratio(7, 8)? { u.int_in_range(1..=3)? } else { u.arbitrary::<u32>()?.max(1) })
    };
    Ok((run, StepId { name, occurrence: small(u)? }, small(u)?))
}

/// A key that was not cut says which step it is of.
fn name_is_in(key: &str, run: &RunId, step: &StepId) {
    let rest = key.strip_prefix(run.as_str()).and_then(|rest| rest.strip_prefix(':'));
    let rest = rest.unwrap_or_else(|| panic!("{key} of run {run}"));
    let (name, occurrence) = rest.split_once('#').unwrap_or((rest, "1"));
    let name = percent_encoding::percent_decode_str(name).decode_utf8();
    assert_eq!((name.as_deref(), occurrence), (Ok(step.name.as_str()), step.occurrence.to_string().as_str()), "{key}");
}
