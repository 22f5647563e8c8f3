//! How much a run may log.

use stepwell_core::contract::Level;
use stepwell_core::limits::{
    MAX_LOG_LINE_BYTES, MAX_RUN_LOG_BYTES, MAX_RUN_LOG_LINES, MAX_TURN_LOG_BYTES, MAX_TURN_LOG_LINES,
};
use stepwell_core::run::{Input, LogLine, Machine, Mode, Output};

use crate::play::{Play, START_MS};

/// What comes of it in so many turns, in each of which so many lines are logged; and the journal.
fn chatty(machine: &mut Machine, turns: usize, a_turn: usize, line: &str) -> (Vec<LogLine>, Vec<Vec<u8>>) {
    let (mut lines, mut journal, mut now_ms) = (Vec::new(), Vec::new(), START_MS);
    machine.begin();
    for _ in 0..turns {
        for _ in 0..a_turn {
            machine.log(Level::Info, line.to_owned(), None, now_ms);
        }
        machine.sleep(1, now_ms).unwrap();
        // A sleep that is recorded is told of at once, another when its time has come.
        while !came_to(machine, Input::Quiet, now_ms, &mut lines, &mut journal) {
            now_ms += 1;
            came_to(machine, Input::Time, now_ms, &mut lines, &mut journal);
        }
    }
    (lines, journal)
}

/// Whether the guest is told something; what is written is gathered.
fn came_to(
    machine: &mut Machine,
    input: Input,
    now_ms: u64,
    lines: &mut Vec<LogLine>,
    journal: &mut Vec<Vec<u8>>,
) -> bool {
    machine.handle(input, now_ms, 0);
    let mut told = false;
    for output in machine.outputs() {
        match output {
            Output::Log(line) => lines.push(line),
            Output::Append { bytes, .. } => journal.push(bytes),
            Output::Deliver(_) => told = true,
            _ => {}
        }
    }
    told
}

/// What it has logged itself, and what is said of it.
fn parted(lines: &[LogLine]) -> (Vec<&LogLine>, Vec<&LogLine>) {
    lines.iter().partition(|line| line.level == Level::Info)
}

#[test]
fn a_run_logs_as_much_as_it_may_and_says_once_that_more_is_left_out() {
    let full_of_lines = (MAX_RUN_LOG_LINES / MAX_TURN_LOG_LINES, MAX_TURN_LOG_LINES, "a line".to_owned());
    let a_turn = MAX_TURN_LOG_BYTES / MAX_LOG_LINE_BYTES;
    let full_of_bytes = (MAX_RUN_LOG_BYTES / MAX_TURN_LOG_BYTES, a_turn, "x".repeat(MAX_LOG_LINE_BYTES));
    for (full, a_turn, line) in [full_of_lines, full_of_bytes] {
        let mut journal = Play::new().journal;
        let mut machine = Machine::load(&journal, None, Mode::Continue).unwrap();
        let (lines, more) = chatty(&mut machine, full + 2, a_turn, &line);
        let (own, said) = parted(&lines);
        assert_eq!(own.len(), full * a_turn);
        let [said] = said[..] else { panic!("it says {} times that it is full", said.len()) };
        assert!(said.message.contains("this run") && said.message.contains("as much as it may"), "{said:?}");
        // Whoever goes on from the journal has no more room than that, and writes none of it again.
        journal.extend(more);
        let last = lines.last().map(|line| (line.turn, line.index));
        let mut again = Machine::load(&journal, last, Mode::Continue).unwrap();
        assert_eq!(chatty(&mut again, full + 4, a_turn, &line).0, []);
    }
}

#[test]
fn bodies_log_as_much_together_as_a_run_may_and_leave_its_own_room_alone() {
    let mut play = Play::new();
    let mut lines = Vec::new();
    for _ in 0..MAX_RUN_LOG_LINES / MAX_TURN_LOG_LINES + 2 {
        play.step("a");
        let attempt = play.attempt();
        for _ in 0..MAX_TURN_LOG_LINES {
            play.machine.log(Level::Info, "a line".to_owned(), None, START_MS);
        }
        lines.extend(play.machine.outputs().into_iter().filter_map(|output| match output {
            Output::Log(line) => Some(line),
            _ => None,
        }));
        play.finish(&attempt, Ok("null"));
        play.quiet();
    }
    let (own, said) = parted(&lines);
    assert_eq!((own.len(), said.len()), (MAX_RUN_LOG_LINES, 1), "{said:?}");
    assert!(lines.iter().all(|line| line.step.is_some()));
    play.machine.log(Level::Info, "its own".to_owned(), None, START_MS);
    let own = play.machine.outputs();
    assert!(matches!(&own[..], [Output::Log(line)] if line.message == "its own"), "{own:?}");
}
