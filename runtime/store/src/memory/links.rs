//! How runs hang together, in memory.

use super::{RunState, State};
use crate::error::Result;
use crate::links::{Link, Links};
use crate::rows::RunKey;

impl State {
    /// A link by the runs' names.
    fn links(&self, link: &Link) -> Links {
        let name = |key: RunKey| self.run(key).map(|found| found.row.run.clone());
        Links {
            parent: link.parent.and_then(|(parent, op)| Some((name(parent)?, op))),
            cancel: link.cancel,
            continued_from: link.continued_from.and_then(name),
            continued_as: link.continued_as.and_then(name),
            first: link.first.and_then(name),
            last: None,
        }
    }

    /// Writes how a run hangs together with others; those before it in its line have another last one then.
    pub(super) fn set_link(&mut self, run: RunKey, link: Link) -> Result<()> {
        let links = self.links(&link);
        let found = self.run_mut(run)?;
        (found.link, found.row.links) = (link, links);
        let first = link.first.unwrap_or(run);
        let last = self.last_after(first).and_then(|last| Some(self.run(last)?.row.run.clone()));
        for found in self.runs.values_mut() {
            if found.row.key == first || found.link.first == Some(first) {
                found.row.links.last = last.clone().filter(|_| found.link.continued_as.is_some());
            }
        }
        Ok(())
    }

    pub(super) fn last_after(&self, first: RunKey) -> Option<RunKey> {
        let last = |found: &&RunState| found.link.first == Some(first) && found.link.continued_as.is_none();
        self.runs.values().find(last).map(|found| found.row.key)
    }
}
