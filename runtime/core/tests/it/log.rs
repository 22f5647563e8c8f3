//! How much a run may log.

use stepwell_core::contract::Level;
use stepwell_core::journal::codec;
use stepwell_core::limits::{MAX_RUN_LOG_LINES, MAX_TURN_LOG_LINES};
use stepwell_core::run::{Input, LogLine, Machine, Mode, Output};

use crate::play::{Play, START_MS};

/// What comes of it in so many turns, in each of which as much is logged as a turn may; and the journal.
fn chatty(machine: &mut Machine, turns: usize) -> (Vec<LogLine>, Vec<Vec<u8>>) {
    let (mut lines, mut journal, mut now_ms) = (Vec::new(), Vec::new(), START_MS);
    for _ in 0..turns {
        for _ in 0..MAX_TURN_LOG_LINES {
            machine.log(Level::Info, "a line".to_owned(), None, now_ms);
        }
        machine.sleep(1, now_ms).unwrap();
        machine.handle(Input::Quiet, now_ms, 0);
        now_ms += 1;
        machine.handle(Input::Time, now_ms, 0);
        machine.handle(Input::Quiet, now_ms, 0);
        for output in machine.outputs() {
            match output {
                Output::Log(line) => lines.push(line),
                Output::Append { entry, .. } => journal.push(codec::encode(&entry)),
                _ => {}
            }
        }
    }
    (lines, journal)
}

#[test]
fn a_run_logs_as_much_as_it_may_and_says_once_that_more_is_left_out() {
    const FULL: usize = MAX_RUN_LOG_LINES / MAX_TURN_LOG_LINES;
    let mut journal = Play::new().journal;
    let mut machine = Machine::load(&journal, None, Mode::Continue).unwrap();
    let (lines, more) = chatty(&mut machine, FULL + 2);
    let said: Vec<&LogLine> = lines.iter().filter(|line| line.level == Level::Warn).collect();
    assert_eq!(lines.len() - said.len(), MAX_RUN_LOG_LINES);
    let [said] = said[..] else { panic!("it says {} times that it is full", said.len()) };
    assert!(said.message.contains("as much as it may"), "{said:?}");
    // Whoever goes on from the journal has no more room than that, and writes none of it again.
    journal.extend(more);
    let last = lines.last().map(|line| (line.turn, line.index));
    let mut again = Machine::load(&journal, last, Mode::Continue).unwrap();
    assert_eq!(chatty(&mut again, FULL + 2).0, []);
}
