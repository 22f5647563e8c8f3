//! The rules of a submission: everything is checked before the first row is written, so that nothing of a refused one is kept.

use std::collections::HashSet;

use stepwell_core::ids::Digest;
use stepwell_core::policy::idempotency;

use crate::admission;
use crate::apply::{Heads, Refusal, add, deliver, repeated};
use crate::errands;
use crate::error::{Result, StoreError};
use crate::ledger::Rows;
use crate::rows::{NewEvent, NewRun, RunKey};
use crate::status::Status;
use crate::submission::{Action, Answer, Kept, Submission};
use crate::tokens;

pub(crate) fn submit(
    rows: &mut dyn Rows,
    heads: &mut Heads,
    submission: &Submission,
) -> std::result::Result<Kept, Refusal> {
    let mut wanted = Wanted::default();
    if let Some(answer) = &submission.answer {
        check_answer(rows, answer)?;
    }
    for action in &submission.actions {
        check(rows, heads, action, &mut wanted)?;
        if let Action::SpareScope(scope) = action {
            tokens::check_spared(rows, &submission.actions, scope)?;
        }
    }
    let mut kept = Kept::default();
    for action in &submission.actions {
        keep(rows, heads, action, &mut kept)?;
    }
    if let Some(answer) = &submission.answer {
        rows.put_answer(answer)?;
        for run in kept.runs.iter().filter(|_| answer.kept) {
            rows.hold(*run, &answer.key)?;
        }
    }
    Ok(kept)
}

/// What earlier actions of the same submission have taken or brought.
#[derive(Default)]
struct Wanted<'a> {
    run_ids: HashSet<&'a str>,
    run_keys: HashSet<&'a str>,
    modules: HashSet<&'a Digest>,
}

fn rule<T>(error: StoreError) -> std::result::Result<T, Refusal> {
    Err(Refusal::Rule(error))
}

/// The claim of a key is its holder's memory; this is the disk's word, whatever that holder remembers.
fn check_answer(rows: &mut dyn Rows, answer: &Answer) -> std::result::Result<(), Refusal> {
    if is_held(rows, answer)? { rule(StoreError::AlreadyAnswered) } else { Ok(()) }
}

/// Whether there is an answer already that holds this one's key.
pub(crate) fn is_held(rows: &mut dyn Rows, answer: &Answer) -> Result<bool> {
    let first = rows.answer(&answer.key)?;
    Ok(first.is_some_and(|first| idempotency::holds(first.at_ms, first.kept, answer.at_ms)))
}

fn check<'a>(
    rows: &mut dyn Rows,
    heads: &mut Heads,
    action: &'a Action,
    wanted: &mut Wanted<'a>,
) -> std::result::Result<(), Refusal> {
    match action {
        Action::Start(run) => {
            check_rerun(rows, heads, run)?;
            check_start(rows, run, wanted)
        }
        Action::Event(event) => check_event(rows, heads, event),
        Action::AddModule(module) => {
            wanted.modules.insert(&module.digest);
            Ok(())
        }
        Action::Activate { workflow, digest, only_if_none, .. } => {
            check_module(rows, digest, wanted)?;
            if *only_if_none && rows.active(workflow)?.is_some() { rule(StoreError::Outdated) } else { Ok(()) }
        }
        Action::RemoveModule(digest) => {
            check_module(rows, digest, wanted)?;
            match need_of(rows, digest)? {
                Some(need) => rule(StoreError::ModuleNeeded(need)),
                None => Ok(()),
            }
        }
        Action::PutSchedule { schedule, replaces } => check_schedule(rows, &schedule.name, *replaces),
        Action::Fire { schedule, replaces, run } => {
            check_schedule(rows, &schedule.name, Some(*replaces))?;
            check_start(rows, run, wanted)
        }
        Action::RemoveSchedule(name) => match rows.schedule_version(name)? {
            Some(_) => Ok(()),
            None => rule(StoreError::NoSuchSchedule(name.clone())),
        },
        Action::AddToken(token) if rows.token(&token.id)?.is_some() => rule(StoreError::TokenExists(token.id.clone())),
        Action::ExpireToken { id, .. } if rows.token(id)?.is_none() => rule(StoreError::NoSuchToken(id.clone())),
        Action::NeedToken { id, at_ms } => tokens::check_held(rows, id, *at_ms),
        Action::AddToken(_)
        | Action::ExpireToken { .. }
        | Action::SpareScope(_)
        | Action::ForgetRun { .. }
        | Action::ForgetRows { .. }
        | Action::ForgetAnswers { .. }
        | Action::SetLimits(_)
        | Action::Admit { .. }
        | Action::TryWriting => Ok(()),
    }
}

fn check_schedule(rows: &mut dyn Rows, name: &str, version: Option<u64>) -> std::result::Result<(), Refusal> {
    if rows.schedule_version(name)? == version { Ok(()) } else { rule(StoreError::Outdated) }
}

/// What a module cannot be taken away for.
fn need_of(rows: &mut dyn Rows, digest: &Digest) -> Result<Option<String>> {
    if let Some(workflow) = rows.workflow_on(digest)? {
        return Ok(Some(format!("new runs of workflow {workflow:?} start on it")));
    }
    Ok(match rows.runs_on(digest)? {
        0 => None,
        1 => Some("one run is open on it, or has failed on it and can be taken up".to_owned()),
        runs => Some(format!("{runs} runs are open on it, or have failed on it and can be taken up")),
    })
}

fn check_event(rows: &mut dyn Rows, heads: &mut Heads, event: &NewEvent) -> std::result::Result<(), Refusal> {
    let run = errands::current(rows, heads, event.run)?;
    let Some(head) = heads.get(rows, run)? else { return rule(StoreError::NoSuchRun(run)) };
    match repeated(rows, heads, event)? {
        Some(first) => {
            let same = (&first.name, &first.payload) == (&event.name, &event.payload);
            if same { Ok(()) } else { rule(StoreError::EventDiffers) }
        }
        None if head.status.is_finished() => rule(StoreError::Finished { run, status: head.status }),
        None => Ok(()),
    }
}

/// The other run may have been taken up meanwhile, and have done what nobody has confirmed. That it has been taken away is no matter.
fn check_rerun(rows: &mut dyn Rows, heads: &mut Heads, run: &NewRun) -> std::result::Result<(), Refusal> {
    let Some(rerun) = &run.rerun else { return Ok(()) };
    let Some(other) = rows.run_by_id(&rerun.of.run)? else { return Ok(()) };
    let head = heads.get(rows, other)?;
    let as_it_was = head.is_none_or(|head| head.status.is_finished() && head.next_seq == rerun.entries);
    if as_it_was { Ok(()) } else { rule(StoreError::Outdated) }
}

fn check_start<'a>(rows: &mut dyn Rows, run: &'a NewRun, wanted: &mut Wanted<'a>) -> std::result::Result<(), Refusal> {
    if let Some(run_key) = &run.run_key {
        if let Some((holder, _)) = rows.run_by_run_key(run_key)? {
            return rule(StoreError::RunKeyTaken(holder));
        }
        if !wanted.run_keys.insert(run_key) {
            return rule(StoreError::Internal("two runs of one submission want the same run key".into()));
        }
    }
    if !wanted.run_ids.insert(run.run.as_str()) || rows.run_by_id(&run.run)?.is_some() {
        return rule(StoreError::RunExists(run.run.clone()));
    }
    check_module(rows, &run.digest, wanted)
}

fn check_module(rows: &mut dyn Rows, digest: &Digest, wanted: &Wanted<'_>) -> std::result::Result<(), Refusal> {
    if wanted.modules.contains(digest) || rows.has_module(digest)? {
        return Ok(());
    }
    rule(StoreError::NoSuchModule(digest.clone()))
}

fn keep(rows: &mut dyn Rows, heads: &mut Heads, action: &Action, kept: &mut Kept) -> std::result::Result<(), Refusal> {
    match action {
        Action::Start(run) => kept.runs.push(add(rows, heads, run)?),
        Action::Fire { schedule, run, .. } => {
            let key = add(rows, heads, run)?;
            rows.put_scheduled(key, &schedule.name)?;
            rows.put_schedule(schedule)?;
            kept.runs.push(key);
        }
        Action::Event(event) => kept.events.push(deliver(rows, heads, event)?),
        Action::AddModule(module) => kept.modules.push(rows.add_module(module)?),
        Action::ForgetRun { run, ended } => kept.forgotten.push(forget(rows, heads, *run, *ended)?),
        Action::ForgetRows { most } => kept.more.push(rows.forget_rows(*most)?),
        Action::SetLimits(limits) => {
            admission::set_limits(rows, &mut heads.1, limits)?;
            heads.forget_runs();
        }
        Action::Admit { workflow, at_ms } => {
            admission::admit_at(rows, &mut heads.1, workflow.as_deref(), *at_ms)?;
        }
        Action::ForgetAnswers { before_ms, most } => kept.more.push(rows.forget_answers(*before_ms, *most)?),
        other => keep_row(rows, other)?,
    }
    Ok(())
}

/// Whether the run is taken away. It has ended, and takes nothing more; that a failed one is taken up is looked for here too, since its
/// end is then another. Those that need it keep it ([`errands::goes`]).
fn forget(rows: &mut dyn Rows, heads: &mut Heads, run: RunKey, (status, ended_ms): (Status, u64)) -> Result<bool> {
    let Some(stands) = rows.ended(run)? else { return Ok(false) };
    let as_it_was = stands.status == status && stands.ended_at_ms == ended_ms;
    // The newest is the measure of all that come: no number is given twice.
    if !as_it_was || stands.has_unknown || stands.is_newest {
        return Ok(false);
    }
    let Some(going) = errands::goes(rows, heads, run)? else { return Ok(false) };
    going.into_iter().try_for_each(|run| rows.forget_run(run))?;
    Ok(true)
}

fn keep_row(rows: &mut dyn Rows, action: &Action) -> Result<()> {
    match action {
        Action::Activate { workflow, digest, at_ms, .. } => rows.activate(workflow, digest, *at_ms),
        Action::RemoveModule(digest) => rows.remove_module(digest),
        Action::AddToken(token) => rows.add_token(token),
        Action::ExpireToken { id, at_ms } => rows.expire_token(id, *at_ms),
        Action::TryWriting => rows.try_writing(),
        Action::PutSchedule { schedule, .. } => rows.put_schedule(schedule),
        Action::RemoveSchedule(name) => rows.remove_schedule(name),
        Action::Start(_)
        | Action::Fire { .. }
        | Action::Event(_)
        | Action::AddModule(_)
        | Action::ForgetRun { .. }
        | Action::ForgetRows { .. }
        | Action::ForgetAnswers { .. }
        | Action::SetLimits(_)
        | Action::Admit { .. }
        | Action::NeedToken { .. }
        | Action::SpareScope(_) => Ok(()),
    }
}
