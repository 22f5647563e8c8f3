//! `stepwell events`: events for runs of a server.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::client::{Client, Sent, ServerArgs, segment};
use crate::cli::run::input;

/// Arguments of `stepwell events`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell events send run_0198c1a2b3c4d5e6f708192a3b4c5d6e approved --payload '{\"by\":\"ana\"}'")]
pub(crate) struct EventsArgs {
    #[command(subcommand)]
    command: EventsCommand,
}

#[derive(Debug, Subcommand)]
enum EventsCommand {
    /// Send an event to a run. It is kept until it is awaited.
    Send {
        /// The run.
        run: String,
        /// The event's name.
        name: String,
        /// JSON, or @FILE with JSON in it, or @- for stdin; null where it is left out.
        #[arg(short, long, value_name = "JSON")]
        payload: Option<String>,
        /// The idempotency key: the same event under the same key is delivered once.
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
        /// Print the answer as JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
}

pub(crate) async fn events(args: EventsArgs) -> Result<(), ExitCode> {
    let EventsCommand::Send { run, name, payload, key, json, server } = args.command;
    let client = Client::new(&server)?;
    let body = input(payload.as_deref())?.to_string().into_bytes();
    let key = Some(key.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()));
    let path = format!("/v1/runs/{}/events/{}", segment(&run), segment(&name));
    let answer = client.post_under_key(&path, Sent { kind: "application/json", body, key }).await?;
    if json {
        show!("{answer}");
    }
    Ok(())
}
