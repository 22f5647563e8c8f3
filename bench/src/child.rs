//! What this program runs in processes of its own: a server, and engines whose memory or start is to be seen from outside.

use anyhow::{Result, bail};

use crate::{restart, server, sleeping};

/// `text` is the child's name and its arguments, with spaces between.
pub(crate) async fn run(text: String) -> Result<()> {
    let words: Vec<&str> = text.splitn(3, ' ').collect();
    match words[..] {
        ["server"] => server::serve().await,
        ["sleeping", runs, dir] => sleeping::child(runs.parse()?, dir.as_ref()).await,
        ["recovered", runs, dir] => sleeping::recovered(runs.parse()?, dir.as_ref()).await,
        ["queue", runs, dir] => restart::queue(runs.parse()?, dir.as_ref()).await,
        ["restart", runs, dir] => restart::child(runs.parse()?, dir.as_ref()).await,
        _ => bail!("there is no child {text:?}"),
    }
}
