//! `stepwell workflows`: the workflows of a server, and their limits.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use stepwell_core::journal::print::printable;

use super::client::{Common, Sent, segment};
use crate::cli::exit::Exit;

/// Arguments of `stepwell workflows`.
#[derive(Debug, Args)]
pub(crate) struct WorkflowsArgs {
    #[command(subcommand)]
    command: WorkflowsCommand,
}

#[derive(Debug, Subcommand)]
enum WorkflowsCommand {
    /// List workflows that runs can be started of, with their limits.
    List(Common),
    /// How many runs of a workflow may be under way, and how many begin in a time.
    Limits(LimitsArgs),
}

#[derive(Debug, Args)]
struct LimitsArgs {
    #[command(subcommand)]
    command: LimitsCommand,
}

#[derive(Debug, Subcommand)]
enum LimitsCommand {
    /// Show the limits of a workflow, and how many runs wait for them.
    Show {
        /// The workflow.
        workflow: String,
        #[command(flatten)]
        common: Common,
    },
    /// Set the limits of a workflow, in place of all that it has. They count at once.
    Set(SetArgs),
    /// Take the limits of a workflow away: runs that wait begin.
    Remove {
        /// The workflow.
        workflow: String,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell workflows limits set checkout --runs 20 --per-key 1
  stepwell workflows limits set mail --rate 100 --rate-ms 60000 --rate-per-key")]
struct SetArgs {
    /// The workflow.
    workflow: String,
    /// Runs that may be under way at a time; with 0 none begins.
    #[arg(long, value_name = "N")]
    runs: Option<u32>,
    /// Runs with the same concurrency key that may be under way at a time.
    #[arg(long, value_name = "N")]
    per_key: Option<u32>,
    /// Runs that begin in the time that --rate-ms names.
    #[arg(long, value_name = "N", requires = "rate_ms")]
    rate: Option<u32>,
    /// That time, in ms.
    #[arg(long, value_name = "MS", requires = "rate")]
    rate_ms: Option<u64>,
    /// The rate is that of each concurrency key, not of the workflow.
    #[arg(long, requires = "rate")]
    rate_per_key: bool,
    #[command(flatten)]
    common: Common,
}

pub(crate) async fn workflows(args: WorkflowsArgs) -> Result<(), ExitCode> {
    match args.command {
        WorkflowsCommand::List(common) => {
            let show = |workflow: &Value| {
                if common.json {
                    show!("{workflow}");
                } else {
                    let text = |name: &str| printable(workflow[name].as_str().unwrap_or_default());
                    show!("{}  {}  {}", text("name"), text("digest"), limits_text(&workflow["limits"]));
                }
            };
            // All of them in one answer.
            let all = common.client()?.get("/v1/workflows").await?;
            all["workflows"].as_array().into_iter().flatten().for_each(show);
            Ok(())
        }
        WorkflowsCommand::Limits(args) => limits(args.command).await,
    }
}

async fn limits(command: LimitsCommand) -> Result<(), ExitCode> {
    let path = |workflow: &str| format!("/v1/workflows/{}/limits", segment(workflow));
    match command {
        LimitsCommand::Show { workflow, common } => {
            let shown = common.client()?.get(&path(&workflow)).await?;
            if common.json {
                show!("{shown}");
            } else {
                describe(&shown);
            }
        }
        LimitsCommand::Set(args) => {
            let body = body(&args)?;
            let set = args.common.client()?.put(&path(&args.workflow), Sent::json(&body, None)).await?;
            if args.common.json {
                show!("{set}");
            }
        }
        LimitsCommand::Remove { workflow, common } => {
            common.client()?.delete(&path(&workflow)).await?;
        }
    }
    Ok(())
}

fn body(args: &SetArgs) -> Result<Value, ExitCode> {
    let mut body = Map::new();
    let of_concurrency = [("runs", args.runs), ("perKey", args.per_key)];
    let concurrency: Map<String, Value> =
        of_concurrency.into_iter().filter_map(|(name, n)| Some((name.to_owned(), n?.into()))).collect();
    if !concurrency.is_empty() {
        body.insert("concurrency".to_owned(), concurrency.into());
    }
    if let Some((runs, per_ms)) = args.rate.zip(args.rate_ms) {
        body.insert("rate".to_owned(), json!({ "runs": runs, "perMs": per_ms, "perKey": args.rate_per_key }));
    }
    if body.is_empty() {
        return Err(Exit::Usage.with("name a limit: --runs, --per-key or --rate; `remove` takes them away"));
    }
    Ok(body.into())
}

/// Limits for people, in a line.
fn limits_text(limits: &Value) -> String {
    let mut texts = Vec::new();
    if let Some(runs) = limits["concurrency"]["runs"].as_u64() {
        texts.push(format!("{runs} at a time"));
    }
    if let Some(runs) = limits["concurrency"]["perKey"].as_u64() {
        texts.push(format!("{runs} at a time with the same key"));
    }
    if let (Some(runs), Some(ms)) = (limits["rate"]["runs"].as_u64(), limits["rate"]["perMs"].as_u64()) {
        let per_key = if limits["rate"]["perKey"] == json!(true) { " with the same key" } else { "" };
        texts.push(format!("{runs} begin in {ms} ms{per_key}"));
    }
    if texts.is_empty() { "no limits".to_owned() } else { texts.join(", ") }
}

fn describe(shown: &Value) {
    let line = |name: &str, value: String| show!("{name:<12}{value}");
    line("limits", limits_text(shown));
    line("under way", shown["underWay"].to_string());
    let waits_for = shown["waitsFor"].as_str().map(|limit| format!(" (the first for {limit})")).unwrap_or_default();
    line("queued", format!("{}{waits_for}", shown["queued"]));
    for change in shown["changes"].as_array().into_iter().flatten() {
        let by = printable(change["by"].as_str().unwrap_or_default());
        line("changed", format!("{} by {by}: {}", change["atMs"], limits_text(change)));
    }
}
