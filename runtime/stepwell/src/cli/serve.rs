//! `stepwell serve`: the server. It drives every run of its data directory until it is told to end.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use stepwell_core::policy::retention::{Retention, Rule};
use tokio::sync::oneshot;

use super::exit::Exit;
use super::signals::Signals;
use super::{DataDir, DurabilityArg, open};
use crate::api::{Server, ServerSettings};
use crate::trace::{TraceArgs, Tracing};

/// Arguments of `stepwell serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell serve
  stepwell serve --listen 127.0.0.1:8080 --data-dir /var/lib/stepwell
  stepwell token create ops --scope admin --data-dir /var/lib/stepwell --init
  stepwell serve --listen 0.0.0.0:7070 --data-dir /var/lib/stepwell
  stepwell serve --retain 90d --retain succeeded=7d

SIGTERM or Ctrl-C ends it: requests under way are answered, runs are left where they are and go on with the next start.
Once more, and it ends at once.")]
pub(super) struct ServeArgs {
    /// Address and port. Beyond this machine only when there are tokens.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070", env = "STEPWELL_LISTEN")]
    listen: SocketAddr,
    /// A secret for request headers: NAME=env:VARIABLE@HOST or NAME=file:PATH@HOST.
    #[arg(long = "secret", value_name = "SECRET")]
    secrets: Vec<String>,
    /// A destination beyond those that workflows declare: a host, an address or a network. Loopback is always allowed.
    #[arg(long = "allow-net", value_name = "NET")]
    allow_net: Vec<String>,
    /// Runs that may be live at once; more wait their turn.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_live: u32,
    /// The largest module that is taken, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    max_module_bytes: usize,
    /// Requests a second that each token may make in the long run; 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 500)]
    rate_limit: u32,
    /// Connections that may be open at once; who comes then waits. Half as many may follow runs.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    /// How long a connection may take to say what it wants, in ms, at first and between requests.
    #[arg(long, value_name = "MS", default_value_t = 15_000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    idle_timeout_ms: u64,
    /// Delete runs that have ended so long ago, with their journals and logs: AGE, or STATUS=AGE for one of succeeded, failed, cancelled
    /// and terminated; AGE is a number with s, m, h or d. Without this nothing is deleted.
    #[arg(long = "retain", value_name = "[STATUS=]AGE")]
    retain: Vec<Rule>,
    /// Print `{"event":"listening","address":...}` on stdout when it takes requests.
    #[arg(long)]
    json: bool,
    /// What a commit withstands.
    #[arg(long, value_enum, default_value = "disk")]
    durability: DurabilityArg,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    data_dir: DataDir,
}

pub(super) async fn run(args: ServeArgs) -> ExitCode {
    match serve(args).await {
        Ok(()) => Exit::Done.into(),
        Err(exit) => exit,
    }
}

async fn serve(args: ServeArgs) -> Result<(), ExitCode> {
    let mut signals = Signals::listen()?;
    let outside = open::Outside { secrets: &args.secrets, allow_net: &args.allow_net };
    let tracing = args.trace.tracing().map_err(|error| Exit::Usage.with(format!("{error:#}")))?;
    let engine = open::engine(&args.data_dir.data_dir, args.durability, &outside, |settings| {
        settings.max_live = args.max_live as usize;
        settings.tap = tracing.as_ref().map(Tracing::tap).unwrap_or_default();
    })?;
    let failed = |error: anyhow::Error| Exit::Failed.with(format!("{error:#}"));
    let traced = tracing.map(|tracing| tracing.start(&engine)).transpose().map_err(failed)?;
    let settings = ServerSettings {
        listen: args.listen,
        max_module_bytes: args.max_module_bytes,
        rate_per_token: args.rate_limit,
        max_connections: args.max_connections as usize,
        idle: Duration::from_millis(args.idle_timeout_ms),
        retention: Retention::of(&args.retain),
    };
    // Before runs go on: a server that nobody can reach should not drive them.
    let server = Server::bind(engine.clone(), &settings).await.map_err(failed)?;
    let address = server.address().map_err(|error| failed(error.into()))?;
    engine.recover().map_err(|error| Exit::Failed.with(error))?;
    engine.keep_schedules();
    if args.json {
        let listening = json!({ "event": "listening", "address": address.to_string() });
        if let Err(error) = writeln!(anstream::stdout(), "{listening}") {
            say!("listening on http://{address}; nothing can be written to standard output: {error}");
        }
    } else {
        say!("listening on http://{address}");
    }
    until_stopped(server, &mut signals).await?;
    if let Some(traced) = traced {
        traced.end().await;
    }
    Ok(())
}

/// Answers until the first signal; ends in order then, or at once at the second.
async fn until_stopped(server: Server, signals: &mut Signals) -> Result<(), ExitCode> {
    let (stop, stopping) = oneshot::channel();
    let mut serving = std::pin::pin!(server.run(async move {
        // Dropped only with the server.
        let _ = stopping.await;
    }));
    tokio::select! {
        () = &mut serving => return Ok(()),
        () = signals.next() => {}
    }
    let _ = stop.send(());
    tokio::select! {
        () = serving => Ok(()),
        // Whoever asks twice has no time to wait. What is on record is safe.
        () = signals.next() => {
            Err(Exit::Stopped.with("stopped at once: requests of runs were broken off, and runs go on with the next start"))
        }
    }
}
