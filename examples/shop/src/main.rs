//! The command line of the shop: flags, the listening line, nothing else.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use tokio::net::TcpListener;

/// A small shop over HTTP that deduplicates by Idempotency-Key and misbehaves when told.
#[derive(Parser)]
#[command(name = "shop", after_help = shop::Fault::GRAMMAR)]
struct Flags {
    /// Port on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// A fault, e.g. 'POST /charges#1=status:503'; may be repeated
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<shop::Fault>,
    /// Append a JSON line for each finished request to this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The process id that `kill:` faults kill, read when the fault strikes
    #[arg(long, value_name = "FILE")]
    victim_pid_file: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("shop: {e:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: Flags) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, flags.port)).await.with_context(|| {
        format!("cannot listen on 127.0.0.1:{}; --port takes another port, 0 any free one", flags.port)
    })?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "shop listening on http://{}", listener.local_addr()?)?;
    stdout.flush()?;
    let options = shop::Options { faults: flags.faults, record: flags.record, victim_pid_file: flags.victim_pid_file };
    shop::serve(listener, options).await
}
