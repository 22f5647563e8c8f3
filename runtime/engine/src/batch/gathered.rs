//! What a run has written and not handed over: entries, lines and errands in their order. Where it is much it is cut into pieces, which
//! are committed one after the other, so that other runs' commits find room between them. What a process dies between is as good as
//! what it dies in the midst of a turn: a journal is whole after each of its entries.

use stepwell_store::{Errand, LogRow};

/// A piece has so many bytes, or a single entry or line.
const PIECE_BYTES: usize = 128 << 10;
/// And so many entries and lines.
const PIECE_RECORDS: usize = 500;

#[derive(Debug, Default)]
pub(super) struct Gathered {
    entries: Vec<Vec<u8>>,
    /// Each with the number of entries before it.
    logs: Vec<(usize, LogRow)>,
    /// Each with the number of entries before it, the last of which says so.
    errands: Vec<(usize, Errand)>,
    bytes: usize,
}

/// What is committed together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) entries: Vec<Vec<u8>>,
    pub(super) logs: Vec<LogRow>,
    pub(super) errands: Vec<Errand>,
}

/// What has to stay together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// Each errand and its entry.
    Errands,
    /// That, and the last entry and what follows it.
    End,
    /// Everything.
    All,
}

impl Gathered {
    pub(super) fn entry(&mut self, entry: Vec<u8>) {
        self.bytes += entry.len();
        self.entries.push(entry);
    }

    pub(super) fn log(&mut self, line: LogRow) {
        self.bytes += size_of_line(&line);
        self.logs.push((self.entries.len(), line));
    }

    /// What the run does to another by the entry before.
    pub(super) fn errand(&mut self, errand: Errand) {
        self.errands.push((self.entries.len(), errand));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.logs.is_empty() && self.errands.is_empty()
    }

    /// How many entries there are.
    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// How many entries and lines.
    pub(super) fn records(&self) -> usize {
        self.entries.len() + self.logs.len()
    }

    /// How many bytes they have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes everything, the pieces in their order. There is always a last one.
    pub(super) fn take(&mut self, whole: Whole) -> (Vec<Piece>, Piece) {
        let Self { entries, logs, errands, bytes } = std::mem::take(self);
        let small = bytes <= PIECE_BYTES && entries.len() + logs.len() <= PIECE_RECORDS;
        // Children may be asked to cancel for entries further back.
        if small || whole == Whole::All || errands.iter().any(|(_, errand)| matches!(errand, Errand::Cancel { .. })) {
            let logs = logs.into_iter().map(|(_, line)| line).collect();
            let errands = errands.into_iter().map(|(_, errand)| errand).collect();
            return (Vec::new(), Piece { entries, logs, errands });
        }
        let last = entries.len();
        let (mut logs, mut errands) = (logs.into_iter().peekable(), errands.into_iter().peekable());
        let mut cutter = Cutter::default();
        for (before, entry) in (0..).zip(entries.into_iter().map(Some).chain([None])) {
            // With the entry before: it is never cut from that.
            while let Some((_, errand)) = errands.next_if(|(at, _)| *at <= before) {
                cutter.piece.errands.push(errand);
            }
            while let Some((_, line)) = logs.next_if(|(at, _)| *at <= before) {
                if before < last || whole == Whole::Errands {
                    cutter.make_room(size_of_line(&line));
                }
                cutter.piece.logs.push(line);
            }
            if let Some(entry) = entry {
                cutter.make_room(entry.len());
                cutter.piece.entries.push(entry);
            }
        }
        (cutter.pieces, cutter.piece)
    }
}

#[derive(Default)]
struct Cutter {
    pieces: Vec<Piece>,
    piece: Piece,
    bytes: usize,
}

impl Cutter {
    /// Begins another piece, where so many bytes are too much for this one.
    fn make_room(&mut self, bytes: usize) {
        let records = self.piece.entries.len() + self.piece.logs.len();
        if records > 0 && (self.bytes + bytes > PIECE_BYTES || records >= PIECE_RECORDS) {
            self.pieces.push(std::mem::take(&mut self.piece));
            self.bytes = 0;
        }
        self.bytes += bytes;
    }
}

fn size_of_line(line: &LogRow) -> usize {
    line.text.len() + line.fields.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(index: u32, bytes: usize) -> LogRow {
        LogRow { turn: 1, index, at_ms: 0, level: 2, step: None, text: "x".repeat(bytes), fields: None }
    }

    fn errand(op: u32) -> Errand {
        Errand::Refuse { op, error: String::new() }
    }

    /// The first byte of each entry, `l` and the index of each line, `e` and the operation of each errand; pieces apart.
    fn told(gathered: &mut Gathered, whole: Whole) -> String {
        let (mut pieces, last) = gathered.take(whole);
        pieces.push(last);
        let one = |piece: &Piece| {
            let entries = piece.entries.iter().map(|entry| entry[0].to_string());
            let logs = piece.logs.iter().map(|line| format!("l{}", line.index));
            let errands = piece.errands.iter().map(|errand| match errand {
                Errand::Refuse { op, .. } | Errand::Cancel { op } => format!("e{op}"),
                other => format!("{other:?}"),
            });
            entries.chain(logs).chain(errands).collect::<Vec<_>>().join(" ")
        };
        assert!(gathered.is_empty() && gathered.bytes() == 0);
        pieces.iter().map(one).collect::<Vec<_>>().join(" | ")
    }

    fn much() -> Gathered {
        let mut gathered = Gathered::default();
        gathered.log(line(0, 10));
        gathered.entry(vec![0; PIECE_BYTES - 10]);
        gathered.errand(errand(0));
        gathered.log(line(1, 10));
        gathered.entry(vec![1; 2 * PIECE_BYTES]);
        gathered.errand(errand(1));
        gathered.log(line(2, PIECE_BYTES));
        gathered.log(line(3, PIECE_BYTES));
        gathered
    }

    #[test]
    fn much_is_cut_in_its_order_and_errands_stay_with_their_entries() {
        assert_eq!(told(&mut much(), Whole::Errands), "0 l0 e0 | l1 | 1 e1 | l2 | l3");
        assert_eq!(told(&mut much(), Whole::End), "0 l0 e0 | l1 | 1 l2 l3 e1");
        assert_eq!(told(&mut much(), Whole::All), "0 1 l0 l1 l2 l3 e0 e1");
    }

    #[test]
    fn what_is_asked_of_children_is_never_cut_from_anything() {
        let mut gathered = much();
        gathered.errand(Errand::Cancel { op: 7 });
        assert_eq!(told(&mut gathered, Whole::Errands), "0 1 l0 l1 l2 l3 e0 e1 e7");
    }

    #[test]
    fn many_small_entries_are_cut_and_few_are_not() {
        let mut gathered = Gathered::default();
        assert_eq!(gathered.take(Whole::Errands), (Vec::new(), Piece::default()));
        for _ in 0..2 * PIECE_RECORDS + 1 {
            gathered.entry(vec![7]);
        }
        let (pieces, last) = gathered.take(Whole::End);
        let sizes: Vec<_> = pieces.iter().chain([&last]).map(|piece| piece.entries.len()).collect();
        assert_eq!(sizes, [PIECE_RECORDS, PIECE_RECORDS, 1]);
        for _ in 0..3 {
            gathered.entry(vec![7]);
        }
        assert_eq!(gathered.take(Whole::End).0, []);
    }
}
