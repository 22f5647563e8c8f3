//! The epochs that restorations have begun: which they were, and which runs were part of the copy.
//!
//! A run that is open is told when its database is restored. One that has ended is told once it goes on again, from here: so
//! restoring looks at none of these, however many there are.

use rusqlite::{Connection, Row, params};

use super::reads::all;
use crate::error::Result;
use crate::rows::{Epoch, RunKey};

/// The table, and nothing else.
pub(super) const EPOCHS: &str = "
CREATE TABLE epochs (
    number    INTEGER PRIMARY KEY,
    name      TEXT NOT NULL,
    in_doubt  INTEGER NOT NULL,
    began_by  TEXT NOT NULL,
    last_run  INTEGER NOT NULL
) STRICT;
";

/// All that a run is part of, the earliest first.
pub(super) fn of_run(connection: &Connection, run: RunKey) -> Result<Vec<Epoch>> {
    all(connection, "SELECT name, in_doubt, began_by FROM epochs WHERE last_run >= ?1 ORDER BY number", [run], epoch)
}

/// Begins one, for every run that there is.
pub(super) fn begin(connection: &Connection, epoch: &Epoch) -> Result<()> {
    connection.execute(
        "INSERT INTO epochs (name, in_doubt, began_by, last_run) SELECT ?1, ?2, ?3, ifnull(max(id), 0) FROM runs",
        params![epoch.name, epoch.in_doubt, epoch.by],
    )?;
    Ok(())
}

fn epoch(row: &Row<'_>) -> rusqlite::Result<Epoch> {
    Ok(Epoch { name: row.get(0)?, in_doubt: row.get(1)?, by: row.get(2)? })
}
