//! The tables of how runs hang together.

/// A row for each run that is a child, that goes on for another, or for which another goes on: most are none of it. And in the inbox
/// what became of operations on other runs, beside the events.
pub(super) const LINKED: &str = "
CREATE TABLE links (
    run            INTEGER PRIMARY KEY,
    parent         INTEGER,
    op             INTEGER,
    awaited        INTEGER NOT NULL,
    stays          INTEGER NOT NULL,
    cancel         INTEGER NOT NULL,
    continued_from INTEGER,
    continued_as   INTEGER,
    first          INTEGER
) STRICT;
CREATE INDEX links_by_first ON links (first, continued_as) WHERE first IS NOT NULL;
CREATE INDEX links_by_parent ON links (parent) WHERE parent IS NOT NULL;
ALTER TABLE inbox ADD COLUMN op INTEGER;
";
