//! Steps that each post to a server on loopback, beside the same client and server without Stepwell.

use anyhow::Result;

use crate::alone::Alone;
use crate::figures::{BYTES, Figures, P50, P99, RATE, Rounds};
use crate::guests::Guest;
use crate::lab::{Lab, client, engine};
use crate::peers::{self, Peers, Work};
use crate::report::{At, Report};
use crate::runs::{Batch, journal_bytes};
use crate::server::Server;
use crate::{floors, machine};

pub(crate) async fn measure(lab: &Lab, report: &mut Report) -> Result<()> {
    let server = Server::start()?;
    let mut peers = Peers::start(lab, report);
    for guest in lab.compared().filter(|guest| guest.posting(0, "").is_some()) {
        let alone = Alone::new(guest)?;
        for &at_once in &lab.at_once {
            let steps = (lab.scaled(8_000, 2_000) / at_once).clamp(8, 1_000);
            let mut rounds = Rounds::default();
            for _ in 0..lab.rounds {
                rounds.add("stepwell", stepwell(lab, guest, &server, at_once, steps).await?);
                rounds.add("bare requests", bare(&server, at_once, steps).await?);
                let few = steps.max(500);
                if let Some(input) = guest.posting(few, &server.base()) {
                    rounds.add("guest alone", alone.posts(&input, few).await?);
                }
                for peer in peers.beside(guest) {
                    let work = Work { at_once, steps: peers::steps(lab, at_once), url: Some(&server.base()) };
                    server.cycles().await?;
                    if let Some(figures) = peer.figures(work, report) {
                        let (p50, p99) = server.cycles().await?;
                        rounds.add(peer.name(), figures.with(P50, p50).with(P99, p99));
                    }
                }
                if at_once == 1 {
                    rounds.add("fdatasync", floors::fdatasync(lab.root(), steps)?);
                }
            }
            let name = guest.name;
            let lines = report.add(&format!("post {name}"), at_once, &rounds);
            match at_once {
                1 => {
                    let above = lines.of("stepwell", P50) - lines.of("bare requests", P50);
                    let syncs = above / lines.of("fdatasync", P50);
                    let what = format!("POST at one run of {name}, above the bare request in fdatasyncs");
                    report.target(what, syncs, At::Most(3.0));
                }
                64 => {
                    let share = lines.of("stepwell", RATE) / lines.of("bare requests", RATE);
                    let what = format!("POST at 64 runs of {name}, of the bare requests a second");
                    report.target(what, share, At::Least(0.4));
                }
                _ => {}
            }
        }
    }
    report.note(format!("The server has a process of its own; both share {} cores.", machine::cores()));
    Ok(())
}

async fn stepwell(lab: &Lab, guest: &Guest, server: &Server, at_once: u32, steps: u32) -> Result<Figures> {
    let dir = lab.data_dir()?;
    let engine = engine(dir.path())?;
    let module = engine.add_module(guest.component.clone()).await?;
    let inputs = (0..at_once).filter_map(|n| guest.posting(steps, &server.url(n)));
    let batch = Batch::start(&engine, &module.digest, "post", inputs, steps).await?;
    server.cycles().await?;
    let took = batch.go(&engine).await?;
    let (p50, p99) = server.cycles().await?;
    let (bytes, _) = journal_bytes(&engine, &batch.runs[0])?;
    engine.stop().await;
    // What the server saw of each run's steps, one after the other.
    Ok(took.of_steps().with(P50, p50).with(P99, p99).with(BYTES, bytes as f64 / f64::from(steps)))
}

async fn bare(server: &Server, at_once: u32, times: u32) -> Result<Figures> {
    let client = client();
    server.cycles().await?;
    let figures = floors::requests(&client, at_once, times, |n| server.url(n)).await?;
    let (p50, p99) = server.cycles().await?;
    Ok(figures.with(P50, p50).with(P99, p99))
}
