//! Where the requests of a workflow's steps may go: what it declares, and what the operator adds.

use stepwell_core::contract::Definition;
use stepwell_core::error::{Code, Error};
use stepwell_host::http::{Destinations, Pattern};

/// What the operator adds to what workflows declare.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// Destinations of every run.
    pub also: Vec<Pattern>,
}

impl Reach {
    /// Where a workflow's steps may send.
    ///
    /// # Errors
    /// When it declares what is no destination.
    pub(crate) fn of(&self, workflow: &Definition) -> Result<Destinations, Error> {
        let declared: Result<Vec<Pattern>, _> = workflow.destinations.iter().map(|text| text.parse()).collect();
        let mut patterns = declared.map_err(|error| {
            let text = format!("workflow {:?} declares a destination that is none: {error}", workflow.name);
            Error::new(Code::InvalidModule, text).never_retried()
        })?;
        patterns.extend(self.also.iter().cloned());
        Ok(Destinations::Only(patterns))
    }
}
