//! What is done with a data directory while no engine has it open: it is copied, and the copy is restored.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use stepwell_engine::RestoreAs;
use stepwell_store::Restoration;

use super::client::Desk;
use super::judge::runs;

fn copy_of(data_dir: &Path) -> anyhow::Result<PathBuf> {
    Ok(data_dir.parent().context("it is in a directory")?.join("copy.db"))
}

/// Makes a copy.
pub(super) fn back_up(data_dir: &Path, _: &Desk) -> anyhow::Result<()> {
    stepwell_store::back_up(data_dir, &copy_of(data_dir)?)?;
    Ok(())
}

/// Puts the copy in the place of what has come since, which is lost.
pub(super) fn restore(data_dir: &Path, desk: &Desk) -> anyhow::Result<()> {
    let before = runs(data_dir)?;
    let copy = copy_of(data_dir)?;
    let what = Restoration { copy: &copy, directory: data_dir, replace: true };
    stepwell_engine::restore(&RestoreAs {
        what,
        nothing_followed: false,
        by: "a person",
        reason: &|_| "it was restored".into(),
    })?;
    let after = runs(data_dir)?;
    let mut state = desk.state();
    for (row, journal) in before {
        let kept = after
            .iter()
            .find(|(other, _)| other.key == row.key)
            .map_or(0, |(_, entries)| entries.iter().zip(&journal).take_while(|(one, other)| one == other).count());
        state.lost.extend(journal.into_iter().skip(kept));
    }
    // What was shown and promised since is lost, and its owner knows that.
    state.shown.clear();
    state.granted.clear();
    Ok(())
}
