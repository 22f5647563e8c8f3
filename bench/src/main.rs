//! Measures Stepwell beside what it stands on: `cargo run --release -p bench`.
//!
//! Everything is measured in turns with its floors (A, B, A, B, …) and told as medians, since a machine is never as quiet as one
//! thinks. It says what is, and decides nothing: no test depends on it.

#![allow(clippy::print_stdout, reason = "the table is what it is for")]

mod alone;
mod args;
mod binary;
mod child;
mod compute;
mod figures;
mod floors;
mod guests;
mod lab;
mod machine;
mod peer;
mod peers;
mod plot;
mod post;
mod replay;
mod report;
mod restart;
mod runs;
mod server;
mod short;
mod sleeping;

use anyhow::Result;
use clap::Parser as _;

use args::{Args, Part};
use lab::Lab;
use report::Report;

/// The product's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Gives back what the allocator keeps for the calling thread, and what it keeps for all of them.
#[allow(unsafe_code)]
fn give_back() {
    // SAFETY: it may be called on any thread and at any time, and touches nothing that is in use.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runtime = stepwell_engine::runtime(give_back)?;
    match args.child.clone() {
        Some(child) => runtime.block_on(child::run(child)),
        None => runtime.block_on(measure(args)),
    }
}

async fn measure(args: Args) -> Result<()> {
    let peers = args.peers_or_exit();
    let lab = Lab::open(&args, peers).await?;
    let mut report = Report::new(&lab)?;
    let mut failed = None;
    for part in Part::ALL {
        if !args.wants(part) {
            continue;
        }
        eprintln!("measuring {}", part.name());
        let measured = match part {
            Part::Compute => compute::measure(&lab, &mut report).await,
            Part::Post => post::measure(&lab, &mut report).await,
            Part::Short => short::measure(&lab, &mut report).await,
            Part::Sleeping => sleeping::measure(&lab, &mut report),
            Part::Replay => replay::measure(&lab, &mut report).await,
            Part::Restart => restart::measure(&lab, &mut report),
            Part::Binary => binary::measure(&lab, &mut report),
        };
        // What was measured before is told all the same.
        if let Err(error) = measured {
            report.note(format!("{} could not be measured: {error:#}", part.name()));
            failed.get_or_insert(error);
        }
    }
    report.print();
    if let Some(file) = &args.json {
        report.write_json(file)?;
    }
    if let Some(file) = &args.plot {
        plot::draw(&report, file)?;
    }
    failed.map_or(Ok(()), Err)
}
