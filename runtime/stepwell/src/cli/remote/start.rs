//! `stepwell start`: a run on a server.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::client::{Client, Sent, ServerArgs, segment};
use super::runs::{Shown, conclude};
use crate::cli::exit::Exit;
use crate::cli::run::input;

/// Arguments of `stepwell start`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell start checkout --input @order.json --run-key order-42
  stepwell start checkout --input '{\"order\":42}' --wait 30s")]
pub(crate) struct StartArgs {
    /// The workflow.
    workflow: String,
    /// The input: JSON, or @FILE with JSON in it, or @- for stdin.
    #[arg(short, long, value_name = "JSON")]
    input: Option<String>,
    /// A name of your own for the run: starting the same again answers that run.
    #[arg(long, value_name = "KEY")]
    run_key: Option<String>,
    /// The idempotency key of this command; a new one where it is left out, so that the command starts a run each time.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// How long the run may be open, in ms; then it is cancelled.
    #[arg(long, value_name = "MS")]
    run_timeout_ms: Option<u64>,
    /// How long it rests before it begins, in ms.
    #[arg(long, value_name = "MS")]
    delay_ms: Option<u64>,
    /// The module, where it is not to be the active one.
    #[arg(long)]
    digest: Option<String>,
    /// The failed, cancelled or terminated run that it is started in the place of.
    #[arg(long, value_name = "RUN")]
    retry_of: Option<String>,
    /// Where its workflow has limits for each concurrency key: which it counts for.
    #[arg(long, value_name = "KEY")]
    concurrency_key: Option<String>,
    /// Where it has to wait: before runs of a lower one, from -100 to 100; 0 where it is left out.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// A mark by which it is found. Can be given more than once.
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,
    /// Wait for its end for so long, e.g. 30s; at most 60s. The exit code is the run's, or 7 where it has not ended.
    #[arg(long, value_name = "TIME")]
    wait: Option<String>,
    /// Print the run as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Tags as they are given.
pub(crate) fn tags(given: &[String]) -> Result<BTreeMap<String, String>, ExitCode> {
    let tag = |text: &String| {
        let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.ok_or_else(|| Exit::Usage.with(format!("--tag {text:?}: write NAME=VALUE")))
    };
    given.iter().map(tag).collect()
}

pub(crate) async fn start(args: StartArgs) -> Result<ExitCode, ExitCode> {
    let client = Client::new(&args.server)?;
    let tags = tags(&args.tags)?;
    let input = input(args.input.as_deref())?;
    let mut body = json!({ "tags": tags });
    for (name, value) in [
        ("runKey", args.run_key.map(Value::from)),
        ("runTimeoutMs", args.run_timeout_ms.map(Value::from)),
        ("delayMs", args.delay_ms.map(Value::from)),
        ("digest", args.digest.map(Value::from)),
        ("retryOf", args.retry_of.map(Value::from)),
        ("concurrencyKey", args.concurrency_key.map(Value::from)),
        ("priority", args.priority.map(Value::from)),
    ] {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    // The input as it was written: a tree would spell its numbers anew.
    let mut text = body.to_string();
    text.truncate(text.len() - 1);
    let text = format!("{text},\"input\":{input}}}");
    let key = Some(args.key.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()));
    let wait = args.wait.as_deref().map(|wait| format!("?wait={}", segment(wait))).unwrap_or_default();
    let path = format!("/v1/workflows/{}/runs{wait}", segment(&args.workflow));
    let run = client.post_under_key(&path, Sent { kind: "application/json", body: text.into_bytes(), key }).await?;
    let shown = Shown::read(&run)?;
    if args.json {
        show!("{run}");
    } else if args.wait.is_none() {
        show!("{}", shown.id);
    } else {
        say!("run {}", shown.id);
    }
    Ok(if args.wait.is_some() { conclude(&shown, args.json) } else { Exit::Done.into() })
}
