//! Steps of unknown outcome on a server: all pages of the list, and a person's word on one.

use std::process::ExitCode;

use serde_json::json;
use stepwell_core::json::Json;

use super::client::{Client, Sent, ServerArgs, segment};
use crate::api::{ResolvedStep, Steps, Unknown};
use crate::cli::exit::Exit;

/// Steps of unknown outcome, each given to `show`. `open`: only those of runs that have not ended.
pub(crate) async fn steps(
    server: &ServerArgs,
    run: Option<&str>,
    open: bool,
    mut show: impl FnMut(&Unknown),
) -> Result<(), ExitCode> {
    let client = Client::new(server)?;
    let run = run.map(|run| format!("&run={}", segment(run))).unwrap_or_default();
    let mut cursor = String::new();
    loop {
        let page = client.get(&format!("/v1/steps?status=unknown&open={open}&limit=1000{run}{cursor}")).await?;
        let page: Steps = serde_json::from_value(page).map_err(not_understood)?;
        page.steps.iter().for_each(&mut show);
        for run in page.unreadable {
            say!("run {run} cannot be read");
        }
        let Some(next) = page.cursor else { return Ok(()) };
        cursor = format!("&cursor={}", segment(&next));
    }
}

pub(super) fn not_understood(error: serde_json::Error) -> ExitCode {
    Exit::Failed.with(format!("the server's answer is not understood: {error}"))
}

/// What a person says of a step.
pub(crate) enum Word<'a> {
    Succeeded(&'a Json),
    Failed(&'a str),
    Retry,
}

/// Tells it to the server, and gives its answer.
pub(crate) async fn resolve_step(
    server: &ServerArgs,
    (run, step): (&str, &str),
    word: Word<'_>,
    evidence: &str,
) -> Result<ResolvedStep, ExitCode> {
    let body = match word {
        // The result as it was written: a tree would spell its numbers anew.
        Word::Succeeded(value) => {
            format!("{{\"outcome\":\"succeeded\",\"evidence\":{},\"result\":{value}}}", json!(evidence))
        }
        Word::Failed(message) => {
            json!({ "outcome": "failed", "evidence": evidence, "error": { "message": message } }).to_string()
        }
        Word::Retry => json!({ "outcome": "retry", "evidence": evidence }).to_string(),
    };
    let path = format!("/v1/runs/{}/steps/{}/resolve", segment(run), segment(step));
    let key = Some(uuid::Uuid::new_v4().to_string());
    let sent = Sent { kind: "application/json", body: body.into_bytes(), key };
    serde_json::from_value(Client::new(server)?.post(&path, sent).await?).map_err(not_understood)
}
