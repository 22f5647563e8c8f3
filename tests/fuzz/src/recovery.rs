//! Journals that nobody wrote: a real one with entries lost, doubled, exchanged, replaced or damaged. Refused, or gone on with; never
//! a panic, which would take every other run of the process with it.

use arbitrary::{Result, Unstructured};
use stepwell_core::journal::codec;

use crate::entries;
use crate::machine::{Play, journal};

/// The input makes a run, then damages its journal, then goes on with it.
pub fn recovery(data: &[u8]) {
    // A corpus may hold journals as text: a line an entry.
    let lines: Vec<Vec<u8>> = data.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let mut rest = Unstructured::new(data);
    if lines.len() > 1 {
        go_on(lines, &mut rest);
    }
    let (first, second) = data.split_at(data.len() / 2);
    let mut u = Unstructured::new(second);
    let Ok(mut journal) = journal(&mut Unstructured::new(first)) else { return };
    let damages = u.int_in_range(1..=4).unwrap_or(1);
    for _ in 0..damages {
        if damage(&mut journal, &mut u).is_err() {
            return;
        }
    }
    go_on(journal, &mut u);
}

fn go_on(journal: Vec<Vec<u8>>, u: &mut Unstructured<'_>) {
    let Ok(play) = Play::load(journal) else { return };
    let mut play = play.without_ledger();
    play.look();
    // `Err` is the input's end.
    let _ = play.go_on(u);
    play.look();
}

fn damage(journal: &mut Vec<Vec<u8>>, u: &mut Unstructured<'_>) -> Result<()> {
    let at = u.choose_index(journal.len().max(1))?;
    if at >= journal.len() {
        return Ok(());
    }
    match u.int_in_range(0..=7)? {
        0 => drop(journal.remove(at)),
        1 => {
            let again = journal[at].clone();
            journal.insert(u.int_in_range(0..=journal.len())?, again);
        }
        2 => {
            let other = u.choose_index(journal.len())?;
            journal.swap(at, other);
        }
        3 => journal[at] = codec::encode(&entries::entry(u)?),
        4 => journal.insert(at, codec::encode(&entries::entry(u)?)),
        5 => journal.truncate(at),
        // A digit of it, so that it stays readable.
        6 => {
            let digits: Vec<usize> = (1..journal[at].len()).filter(|i| journal[at][*i].is_ascii_digit()).collect();
            if let Ok(digit) = u.choose(&digits) {
                journal[at][*digit] = b'0' + u.int_in_range(0..=9)?;
            }
        }
        _ => {
            let byte = u.choose_index(journal[at].len().max(1))?;
            if let Some(byte) = journal[at].get_mut(byte) {
                *byte = u.arbitrary()?;
            }
        }
    }
    Ok(())
}
