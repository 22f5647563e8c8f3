//! The life of a run: what each operation comes to in each state. The table is the one of ARCHITECTURE.md, word for word, and it is
//! walked live, and with a kill before and after the question.

use stepwell_core::contract::{EffectClass, Event, Exchange, ParentClose, RunOptions};
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::RunId;
use stepwell_core::run::{
    Activity, Birth, Finding, Granted, Machine, Mode, Refusal, Rerun, RerunError, Retry, RunStatus, rerun,
};

use crate::play::{Play, class, declined, json, post};

/// Brings a run into a state.
type Into = fn() -> Play;

const STATES: [(&str, Into); 14] = [
    ("queued", Play::queued),
    // Of limits the machine knows nothing.
    ("in line", Play::queued),
    ("executing", executing),
    ("between steps", between),
    ("backing off", backing_off),
    ("sleeping", sleeping),
    ("waiting for an event", waiting),
    ("waiting for a child", parent),
    ("blocked", blocked),
    ("paused", paused),
    ("asked to cancel", cancelling),
    ("ending", ending),
    ("failed", failed),
    ("ended", ended),
];

const OPERATIONS: [&str; 6] = ["cancel", "terminate", "pause", "resume", "resolve", "retry"];

fn executing() -> Play {
    let mut play = Play::new();
    play.step("charge");
    let attempt = play.attempt();
    play.send(&attempt, post("charge 5"));
    play
}

fn between() -> Play {
    let mut play = Play::new();
    play.step("charge");
    play.sleep(1_000_000);
    let attempt = play.attempt();
    play.finish(&attempt, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    play
}

fn backing_off() -> Play {
    let mut play = Play::new();
    play.step("charge");
    let attempt = play.attempt();
    play.finish(&attempt, Err(declined("no")));
    play.nothing();
    play
}

fn sleeping() -> Play {
    let mut play = Play::new();
    play.sleep(1_000_000);
    play.nothing();
    play
}

fn waiting() -> Play {
    let mut play = Play::new();
    play.wait("paid", Some(1_000_000));
    play.nothing();
    play
}

fn parent() -> Play {
    let mut play = Play::new();
    let (run_key, detached, on_parent_close, tags) = (None, false, ParentClose::Cancel, Vec::new());
    play.start("ship", "1", RunOptions { run_key, detached, on_parent_close, tags });
    play.nothing();
    play
}

fn blocked() -> Play {
    let mut play = Play::new();
    play.step_with("charge", &class(EffectClass::Once));
    let attempt = play.attempt();
    let exchange = play.send(&attempt, post("charge 5"));
    play.lost(exchange);
    play.quiet();
    play.finish(&attempt, Err(declined("no answer")));
    play.nothing();
    play
}

fn paused() -> Play {
    let mut play = sleeping();
    play.pause().unwrap();
    play
}

/// A request is torn down, and what became of it is not known yet.
fn cancelling() -> Play {
    let mut play = executing();
    play.cancel().unwrap();
    play
}

fn ending() -> Play {
    let mut play = executing();
    play.returns(Ok("1"));
    play
}

fn failed() -> Play {
    let mut play = Play::new();
    play.step("charge");
    let attempt = play.attempt();
    play.finish(&attempt, Err(declined("no").never_retried()));
    let Some(Event::Failed(0, error)) = play.quiet() else { panic!("the step has failed") };
    play.returns(Err(error));
    play
}

fn ended() -> Play {
    let mut play = between();
    play.returns(Ok("1"));
    play
}

fn asked(play: &mut Play, operation: &str) -> Result<Granted, Refusal> {
    match operation {
        "cancel" => play.cancel(),
        "terminate" => play.terminate(),
        "pause" => play.pause(),
        "resume" => play.unpause(),
        "retry" => play.retry(&Retry::default()).map(|retried| retried.granted),
        _ => play.ask(|machine, now_ms| {
            let found = Finding::Succeeded(json("1"));
            machine.resolve("charge", found, "asked the bank", "ana", now_ms).map(|resolved| resolved.granted)
        }),
    }
}

fn word(answer: &Result<Granted, Refusal>) -> &'static str {
    match answer {
        Ok(Granted::Now) => "yes",
        Ok(Granted::OnResume) => "yes, once resumed",
        Ok(Granted::Already) => "is so",
        Err(Refusal::Ended(_)) => "no: ended",
        Err(Refusal::Ending) => "no: ending",
        Err(Refusal::NotFailed) => "no: not failed",
        Err(Refusal::NoSuchStep(_) | Refusal::StepNotUnknown { .. }) => "no: not unknown",
        Err(_) => "no",
    }
}

/// Lets the run go on until nothing more happens by itself; a workflow that is cancelled ends with the first failure that it is told.
fn stands(play: &mut Play) -> &'static str {
    loop {
        for exchange in play.torn() {
            play.lost(exchange);
        }
        if let Some(outcome) = play.machine.ended() {
            return RunStatus::of(outcome).as_str();
        }
        if play.machine.is_terminating() {
            play.next_due();
            continue;
        }
        if play.machine.is_paused() {
            return "paused";
        }
        match play.quiet() {
            Some(Event::Failed(_, error)) => play.returns(Err(error)),
            Some(Event::Completed(..)) => play.returns(Ok("1")),
            Some(Event::Attempt(attempt)) => play.finish(&attempt, Ok("1")),
            Some(_) => {}
            None => match play.machine.activity() {
                Activity::Waiting { .. } => return "waiting",
                Activity::Blocked(_) => return "blocked",
                Activity::Running => return "running",
                other => panic!("{other:?}"),
            },
        }
    }
}

fn cell(state: fn() -> Play, operation: &str) -> String {
    let mut play = state();
    // A queued run begins; nothing of it has begun where it was asked before.
    let answer = asked(&mut play, operation);
    let again = asked(&mut play, operation);
    let once = matches!(again, Ok(Granted::Already) | Err(_));
    assert!(once, "{operation}, a second time: {again:?} after {answer:?}");
    match &answer {
        Ok(Granted::Now | Granted::OnResume) => format!("{}: {}", word(&answer), stands(&mut play)),
        _ => word(&answer).to_owned(),
    }
}

/// A rerun asks nothing of the run itself: what is decided is decided by its journal, and another run lives on.
fn rerun_cell(state: Into) -> String {
    let play = state();
    let ask = Rerun { from_step: "charge".to_owned(), confirm: true, ..Rerun::default() };
    let birth = Birth { run: RunId::new("run_2"), at_ms: 1, reason: String::new(), by: "ana".to_owned() };
    match rerun(&play.journal, &ask, &birth) {
        Ok(new) => {
            let machine = Machine::load(&new.journal, None, Mode::Continue).unwrap();
            assert!(machine.ended().is_none() && machine.run_id().as_str() == "run_2");
            "yes: another run".to_owned()
        }
        Err(RerunError::Refused(Refusal::NotEnded)) => "no: not ended".to_owned(),
        Err(other) => panic!("{other:?}"),
    }
}

/// The lines of the table, as they stand in ARCHITECTURE.md.
fn table() -> Vec<String> {
    let mut lines = vec![
        format!("| | {} | rerun |", OPERATIONS.join(" | ")),
        format!("| --- |{}", " --- |".repeat(OPERATIONS.len() + 1)),
    ];
    for (name, state) in STATES {
        let cells: Vec<String> = OPERATIONS.iter().map(|operation| cell(state, operation)).collect();
        lines.push(format!("| {name} | {} | {} |", cells.join(" | "), rerun_cell(state)));
    }
    lines
}

#[test]
fn the_table_of_architecture_md_is_what_happens() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md");
    let text = std::fs::read_to_string(path).unwrap();
    let table = table();
    for line in &table {
        assert!(
            text.lines().any(|of| of == line),
            "ARCHITECTURE.md has no line\n{line}\nof the table\n{}",
            table.join("\n")
        );
    }
}

/// A kill at any moment changes nothing in what was answered, nor in what comes of it.
#[test]
fn the_table_holds_across_a_kill() {
    for (name, state) in STATES {
        for operation in OPERATIONS {
            let mut live = state();
            let answer = asked(&mut live, operation);
            if !matches!(answer, Ok(Granted::Now | Granted::OnResume)) {
                continue;
            }
            let expected = stands(&mut live);
            let mut after = state();
            asked(&mut after, operation).unwrap();
            restarted(&mut after);
            assert_eq!(stands(&mut after), expected, "{name}, {operation}, then a kill");
            // Where the end is decided and not recorded, nothing has been decided after a kill; a torn request is lost by it.
            if matches!(name, "ending" | "asked to cancel") {
                continue;
            }
            let mut before = state();
            before.lose_process();
            assert_eq!(word(&asked(&mut before, operation)), word(&answer), "{name}, a kill, then {operation}");
            restarted(&mut before);
            assert_eq!(stands(&mut before), expected, "{name}, a kill, then {operation}");
        }
    }
}

fn restarted(play: &mut Play) {
    play.lose_process();
    play.torn();
    let needs_instance = play.machine.ended().is_none() && !play.machine.is_terminating() && !play.machine.is_paused();
    if needs_instance {
        play.rebuild();
    }
}

#[test]
fn a_cancel_and_then_a_termination_are_one_end() {
    // One that has failed is taken up again.
    for (name, state) in STATES.into_iter().filter(|(name, _)| *name != "failed") {
        let mut play = state();
        let cancelled = asked(&mut play, "cancel");
        let terminated = asked(&mut play, "terminate");
        let sent = play.sends();
        let end = stands(&mut play);
        let was_over = play.machine.ended().is_some() && terminated.is_err();
        assert!(was_over || end == "terminated", "{name}: {cancelled:?}, {terminated:?}, {end}");
        assert_eq!(play.sends(), sent, "{name}: no later effect");
        assert_eq!(play.machine.next_due_ms(), None, "{name}: no timer is left");
        for operation in OPERATIONS {
            assert!(matches!(asked(&mut play, operation), Err(Refusal::Ended(_))), "{name}, {operation}");
        }
    }
}

#[test]
fn what_settles_late_changes_no_end() {
    let mut play = executing();
    let exchange: Exchange = 0;
    asked(&mut play, "terminate").unwrap();
    play.answered(exchange, 200, "late");
    assert_eq!(stands(&mut play), "terminated");
    let entries = play.machine.entries();
    play.answered(exchange, 200, "later");
    play.traps(Code::Trap);
    play.returns(Err(Error::new(Code::WorkflowFailed, "late")));
    assert_eq!(play.machine.entries(), entries);
}
