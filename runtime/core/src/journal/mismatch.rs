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

/// Steps that a likely cause names; the others are counted.
const NAMED: usize = 5;

impl Mismatch {
    /// The likely cause where the code is the one that recorded the journal. `bodies` are the steps whose bodies ran before the
    /// difference, the latest first: a body runs once and not on replay, so what it left behind is the usual cause.
    pub(crate) fn cause_in_same_code(bodies: &[String]) -> String {
        if bodies.is_empty() {
            return "the workflow's code depends on something that is not recorded (no step's body had run before)"
                .to_owned();
        }
        let (named, others) = bodies.split_at(bodies.len().min(NAMED));
        let more = if others.is_empty() { String::new() } else { format!(" or one of {} more", others.len()) };
        format!(
            "the body of step {}{more} changed something outside itself (a variable, a shared object) that the workflow then \
             used. A body runs once and not again on replay, so return it from the step instead",
            named.join(" or ")
        )
    }

    /// The same difference, shown by other code than that which recorded the journal.
    #[must_use]
    pub fn on_other_code(mut self) -> Self {
        self.likely = format!("the code has changed since the run was recorded; where it has not, {}", self.likely);
        self
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "replay differs at entry {} (turn {}): recorded was {}, but now came {}. Likely cause: {}. \
             Nothing was written; where the run has not ended, it can go on with code that does what is recorded.",
            self.seq, self.turn, self.recorded, self.came, self.likely
        )
    }
}
