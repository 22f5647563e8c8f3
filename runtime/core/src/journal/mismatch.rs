//! What is said when workflow code does not do what the journal says it did.

use std::fmt;

/// The first difference between a journal and the code that replays it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The entry of the journal at which it shows; the journal's length where it shows at its end.
    pub seq: u64,
    /// The turn of workflow code, from 0.
    pub turn: u64,
    /// What the journal says.
    pub recorded: String,
    /// What the code did.
    pub came: String,
    /// The likely cause.
    pub likely: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "replay differs at entry {} (turn {}): recorded was {}, but now came {}. Likely cause: {}. \
             Nothing was written; where the run has not ended, it can go on with the code that it was recorded with.",
            self.seq, self.turn, self.recorded, self.came, self.likely
        )
    }
}
