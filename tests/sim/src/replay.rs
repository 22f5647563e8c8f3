//! What must hold of every journal, finished or not: the same code replays it to the same end, and other code is stopped by it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::Record;
use stepwell_core::run::{Input, Machine, Mode, Output};

use crate::guest::{Guest, Turn};
use crate::host::Host;
use crate::program::{Operation, OperationKind, Program, Stmt};

/// How a replay went.
#[derive(Debug, PartialEq, Eq)]
enum Replayed {
    /// To the recorded end.
    Verified,
    /// To a difference.
    Stopped(String),
    /// To a point from which it would go on.
    Live,
}

/// Checks both.
///
/// # Errors
/// What does not hold.
pub fn check(program: &Rc<Program>, journal: &[Vec<u8>], rng: &mut SmallRng) -> Result<(), String> {
    let machine = Machine::load(journal, None, Mode::Verify).map_err(|e| e.to_string())?;
    if machine.ended_by_return() {
        let replayed = replay(program, machine)?;
        if replayed != Replayed::Verified {
            return Err(format!("the replay of a finished run ends otherwise: {replayed:?}"));
        }
    }
    let Some((first, name)) = journal.iter().enumerate().find_map(|(at, bytes)| step_begun(at, bytes)) else {
        return Ok(());
    };
    // Any beginning of a journal is a run's that was interrupted there.
    let length = rng.random_range(first + 1..=journal.len());
    // Taken back to before that step, a run shows nothing of it.
    if journal[..length].iter().enumerate().any(|(at, bytes)| is_rewound(at, bytes)) {
        return Ok(());
    }
    // What a rerun has of another run is there all at once.
    if journal.iter().enumerate().any(|(at, bytes)| is_reran(at, bytes)) {
        return Ok(());
    }
    for mode in [Mode::Continue, Mode::Verify] {
        let machine = Machine::load(&journal[..length], None, mode).map_err(|e| e.to_string())?;
        let no_instance = machine.ended().is_some() || machine.is_terminating() || machine.is_paused();
        if no_instance && mode == Mode::Continue {
            continue;
        }
        let replayed = replay(&Rc::new(renamed(program, &name)), machine)?;
        if !matches!(replayed, Replayed::Stopped(_)) {
            return Err(format!(
                "other code is not stopped by the journal's first {length} entries ({mode:?}): {replayed:?}"
            ));
        }
    }
    Ok(())
}

fn replay(program: &Rc<Program>, machine: Machine) -> Result<Replayed, String> {
    let now_ms = u64::MAX / 4;
    let host = Rc::new(RefCell::new(Host {
        machine,
        now_ms,
        rng: SmallRng::seed_from_u64(0),
        notes: Vec::new(),
        violations: Vec::new(),
        takes: BTreeMap::new(),
        witness: BTreeMap::new(),
        traps: false,
    }));
    let mut guest = Guest::new(host.clone(), program.clone());
    let mut turn = guest.run();
    loop {
        let input = match turn {
            Turn::Quiet => Input::Quiet,
            Turn::Returned(result) => Input::Returned(result),
            Turn::Trapped(error) => Input::Trapped(error),
        };
        host.borrow_mut().machine.handle(input, now_ms, 0);
        let outputs = host.borrow_mut().machine.outputs();
        if let Some(violation) = host.borrow_mut().violations.pop() {
            return Err(format!("on replay: {violation}"));
        }
        let mut event = None;
        for output in outputs {
            match output {
                Output::Deliver(delivered) => event = Some(delivered),
                Output::Verified => return Ok(Replayed::Verified),
                Output::Stopped(mismatch) => return Ok(Replayed::Stopped(mismatch.to_string())),
                Output::Log(_) => {}
                _ => return Ok(Replayed::Live),
            }
        }
        let Some(event) = event else { return Ok(Replayed::Live) };
        turn = guest.deliver(event);
    }
}

fn is_rewound(at: usize, bytes: &[u8]) -> bool {
    codec::decode(at as u64, bytes).is_ok_and(|entry| matches!(entry.record, Record::Rewound { .. }))
}

fn is_reran(at: usize, bytes: &[u8]) -> bool {
    codec::decode(at as u64, bytes).is_ok_and(|entry| matches!(entry.record, Record::Reran(_)))
}

fn step_begun(at: usize, bytes: &[u8]) -> Option<(usize, String)> {
    match codec::decode(at as u64, bytes).ok()?.record {
        Record::StepBegun(begun) => Some((at, begun.step.name)),
        _ => None,
    }
}

/// The program with all steps of that name called otherwise.
fn renamed(program: &Program, name: &str) -> Program {
    let mut program = program.clone();
    rename(&mut program.main, name);
    rename(&mut program.cleanup, name);
    rename(&mut program.rescue, name);
    program
}

fn rename(stmts: &mut [Stmt], name: &str) {
    let one = |operation: &mut Operation| {
        if let OperationKind::Step(plan) = &mut operation.kind
            && plan.name == name
        {
            Rc::make_mut(plan).name = "another".to_owned();
        }
    };
    for stmt in stmts {
        match stmt {
            Stmt::Do(operation) | Stmt::Start(operation) => one(operation),
            Stmt::All { branches, .. } => branches.iter_mut().for_each(|branch| rename(branch, name)),
            Stmt::Race { contestants: operations, .. } | Stmt::Abandon { operations, .. } => {
                operations.iter_mut().for_each(one);
            }
            Stmt::Chance { even, odd } => {
                rename(even, name);
                rename(odd, name);
            }
            _ => {}
        }
    }
}
