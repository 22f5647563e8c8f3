//! `stepwell runs rerun`: a new run that goes on from the journal of one that has ended.

use std::process::ExitCode;

use clap::Args;
use serde::Deserialize;
use serde_json::json;
use stepwell_core::journal::print::printable;

use super::client::{Client, Sent, ServerArgs, segment};
use super::start::tags;
use crate::api::RerunFrom;
use crate::cli::exit::Exit;

/// Arguments of `stepwell runs rerun`.
#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    /// The run. It has ended, however it did.
    run: String,
    /// The step from whose beginning the new run lives by itself: `charge`, `charge#2`; `charge#1` is the first of several.
    #[arg(long, value_name = "STEP")]
    from_step: String,
    /// The module, where it is not to be the one that the run had last. What is before the step has to replay clean on it.
    #[arg(long, visible_alias = "module", value_name = "DIGEST")]
    digest: Option<String>,
    /// What was done since the step began may be done again. Without this it is listed, and nothing is started.
    #[arg(long)]
    confirm: bool,
    /// A name of your own for the new run: starting the same again answers that run.
    #[arg(long, value_name = "KEY")]
    run_key: Option<String>,
    /// A mark by which it is found, in the place of those of the other run. Can be given more than once.
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,
    /// Why; it stands in the journal.
    #[arg(long)]
    reason: Option<String>,
    /// The idempotency key of this command; a new one where it is left out, so that the command starts a run each time.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// What is looked at of the answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    id: String,
    // A run that has the run key is shown without these.
    #[serde(default)]
    again: Vec<String>,
    #[serde(default)]
    events_left: Vec<String>,
}

/// Starts it.
pub(crate) async fn rerun(args: RerunArgs) -> Result<(), ExitCode> {
    let tags = tags(&args.tags)?;
    let from = RerunFrom {
        from_step: args.from_step,
        digest: args.digest,
        confirm: args.confirm,
        run_key: args.run_key,
        tags: (!args.tags.is_empty()).then(|| tags.into_iter().collect()),
        reason: args.reason,
        input: None,
    };
    let path = format!("/v1/runs/{}/rerun", segment(&args.run));
    let key = Some(args.key.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()));
    let body = Client::new(&args.server)?.post_under_key(&path, Sent::json(&json!(from), key)).await?;
    let answer: Answer = serde_json::from_str(&body)
        .map_err(|error| Exit::Failed.with(format!("the answer is not understood: {error}")))?;
    if args.json {
        show!("{body}");
        return Ok(());
    }
    for (what, names) in [
        ("attempted again, under the keys that they had", &answer.again),
        ("events that stay with the other run", &answer.events_left),
    ] {
        if !names.is_empty() {
            say!("{what}: {}", printable(&names.join(", ")));
        }
    }
    show!("{}", answer.id);
    say!("to follow it: stepwell runs watch {}", answer.id);
    Ok(())
}
