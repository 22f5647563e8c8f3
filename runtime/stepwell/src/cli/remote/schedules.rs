//! `stepwell schedules`: a server's schedules.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};
use stepwell_core::journal::print::printable;

use super::client::{Common, Sent, segment};
use crate::cli::exit::Exit;
use crate::cli::render::clock;
use crate::cli::run::input;

/// Arguments of `stepwell schedules`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell schedules set report report --cron '0 9 * * MON-FRI' --time-zone Europe/Berlin
  stepwell schedules set sweep sweep --cron '*/5 * * * *' --overlap queue --input '{\"deep\":true}'
  stepwell schedules show report --next 10
  stepwell schedules pause report")]
pub(crate) struct SchedulesArgs {
    #[command(subcommand)]
    command: SchedulesCommand,
}

#[derive(Debug, Subcommand)]
enum SchedulesCommand {
    /// List schedules: when they fire next, and why one does not.
    List(Common),
    /// Show a schedule, what has become of it, and when it fires.
    Show {
        /// The schedule.
        name: String,
        /// How many of the times at which it fires are shown.
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=1_000))]
        next: u32,
        #[command(flatten)]
        common: Common,
    },
    /// Make a schedule, or replace what one starts and when.
    Set(Box<SetArgs>),
    /// Let a schedule start nothing until it is resumed.
    Pause {
        /// The schedule.
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Let a schedule fire again, from its next time on.
    Resume {
        /// The schedule.
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Take a schedule away. Runs that it has started go on; a time that waits does not fire.
    Delete {
        /// The schedule.
        name: String,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
struct SetArgs {
    /// Its name.
    name: String,
    /// The workflow whose runs it starts.
    workflow: String,
    /// When: a cron expression of five fields, or of six with seconds before them.
    #[arg(long)]
    cron: String,
    /// On whose clocks. Where `--cron` names hours, a time that is skipped when clocks are put forward fires once, at the end of the gap,
    /// and one that comes twice when they are put back fires at the first; where it names none, it follows time as it passes.
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    /// The input of each run: JSON, or @FILE with JSON in it, or @- for stdin.
    #[arg(short, long, value_name = "JSON")]
    input: Option<String>,
    /// What becomes of a firing while a run of the schedule is open: skip passes it over, queue lets it wait, allow lets both run.
    #[arg(long, default_value = "skip", value_parser = ["skip", "queue", "allow"])]
    overlap: String,
    /// How many of the times that have passed while nothing could be started are made up for: the latest. Others are counted as missed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    catch_up: u32,
    /// How long each run may be open, in ms; then it is cancelled.
    #[arg(long, value_name = "MS")]
    run_timeout_ms: Option<u64>,
    /// A mark on each run. Can be given more than once.
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,
    #[command(flatten)]
    common: Common,
}

pub(crate) async fn schedules(args: SchedulesArgs) -> Result<(), ExitCode> {
    match args.command {
        SchedulesCommand::List(common) => {
            let show = |schedule: &Value| match common.json {
                true => show!("{schedule}"),
                false => line(schedule),
            };
            common.client()?.list("/v1/schedules", "schedules", show).await
        }
        SchedulesCommand::Show { name, next, common } => {
            let path = path(&name, &format!("?next={next}"));
            shown(&common.client()?.text(Method::GET, &path, None).await?, common.json)
        }
        SchedulesCommand::Set(args) => set(&args).await,
        SchedulesCommand::Pause { name, common } => ask(&name, "/pause", &common).await,
        SchedulesCommand::Resume { name, common } => ask(&name, "/resume", &common).await,
        SchedulesCommand::Delete { name, common } => common.client()?.delete(&path(&name, "")).await.map(|_| ()),
    }
}

fn path(name: &str, rest: &str) -> String {
    format!("/v1/schedules/{}{rest}", segment(name))
}

async fn set(args: &SetArgs) -> Result<(), ExitCode> {
    let mut tags = Map::new();
    for text in &args.tags {
        let (name, value) =
            text.split_once('=').ok_or_else(|| Exit::Usage.with(format!("--tag {text:?}: write NAME=VALUE")))?;
        tags.insert(name.to_owned(), value.into());
    }
    let mut body = json!({
        "workflow": args.workflow, "cron": args.cron, "timeZone": args.time_zone, "overlap": args.overlap,
        "catchUp": args.catch_up, "tags": tags,
    });
    if let Some(ms) = args.run_timeout_ms {
        body["runTimeoutMs"] = ms.into();
    }
    // The input as it was written: a tree would spell its numbers anew.
    let mut text = body.to_string();
    text.truncate(text.len() - 1);
    let text = format!("{text},\"input\":{}}}", input(args.input.as_deref())?);
    let sent = Sent { body: text.into_bytes(), ..Sent::json(&Value::Null, None) };
    let answer = args.common.client()?.text(Method::PUT, &path(&args.name, ""), Some(&sent)).await?;
    shown(&answer, args.common.json)
}

async fn ask(name: &str, what: &str, common: &Common) -> Result<(), ExitCode> {
    let sent = Sent::json(&json!({}), None);
    let answer = common.client()?.text(Method::POST, &path(name, what), Some(&sent)).await?;
    shown(&answer, common.json)
}

/// How it stands, in a line.
fn line(schedule: &Value) {
    let text = |name: &str| schedule[name].as_str().unwrap_or_default();
    let stands = match (text("state"), schedule["nextMs"].as_u64()) {
        ("active", Some(at_ms)) => format!("next {}", clock(at_ms)),
        (state, _) => format!("{state}: {}", text("detail")),
    };
    let (name, workflow, cron, zone) = (text("name"), text("workflow"), text("cron"), text("timeZone"));
    show!("{}", printable(&format!("{name}  {workflow}  {cron} {zone}  {stands}")));
}

/// A schedule with what has become of it; as JSON, as it was written.
fn shown(answer: &str, as_json: bool) -> Result<(), ExitCode> {
    if as_json {
        show!("{answer}");
        return Ok(());
    }
    let unreadable = |error: serde_json::Error| Exit::Failed.with(format!("the answer is not understood: {error}"));
    let schedule: Value = serde_json::from_str(answer).map_err(unreadable)?;
    line(&schedule);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let time = |value: &Value| clock(value.as_u64().unwrap_or_default());
    show!("  overlap {}, catches up {}", text(&schedule["overlap"]), schedule["catchUp"]);
    show!(
        "  started {}, missed {}, passed over for an open run {}",
        schedule["fired"],
        schedule["missed"],
        schedule["overlapped"]
    );
    let last = &schedule["lastFired"];
    if last.is_object() {
        let existed = if last["existed"] == true { ", which was there already" } else { "" };
        show!("  last for {}: {}{existed}", time(&last["atMs"]), printable(&text(&last["run"])));
    }
    let skipped = &schedule["lastSkipped"];
    if skipped.is_object() {
        show!("  last passed over {}: {}", time(&skipped["atMs"]), text(&skipped["reason"]));
    }
    if let Some(since_ms) = schedule["failingSinceMs"].as_u64() {
        show!("  failing since {}", clock(since_ms));
    }
    let by = printable(&text(&schedule["changedBy"]));
    show!("  last changed {} by {by}", time(&schedule["changedAtMs"]));
    for firing in schedule["next"].as_array().into_iter().flatten() {
        show!("  fires {}", time(&firing["atMs"]));
    }
    Ok(())
}
