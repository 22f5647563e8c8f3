//! The stories themselves.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use serde_json::json;
use stepwell_core::journal::entry::Record;
use stepwell_core::json::Json;
use stepwell_core::policy::admission::{Limits, Rate};
use stepwell_engine::{Finding, Rerun, RerunAs, Retry, RunRef, StartRun};
use stepwell_store::{Action, LimitsRow, Status, Submission};

use super::client::Client;
use super::offline::{back_up, restore};
use super::{Act, Story};
use crate::gate::Arrival;

/// All of them.
pub const STORIES: &[Story] = &[
    of("cancelled asleep", &[Act::Live(|client| Box::pin(cancelled(client)))]),
    of("terminated asleep", &[Act::Live(|client| Box::pin(terminated(client)))]),
    of("cancelled with a child", &[Act::Live(|client| Box::pin(cancelled_with_a_child(client)))]),
    of("paused and resumed", &[Act::Live(|client| Box::pin(paused(client)))]),
    of("resolved by a person", &[Act::Live(|client| Box::pin(resolved(client)))]),
    of("failed and retried", &[Act::Live(|client| Box::pin(retried(client)))]),
    of("rerun from a step", &[Act::Live(|client| Box::pin(reran(client)))]),
    of("children, events, other runs", &[Act::Live(|client| Box::pin(family(client)))]),
    Story { seen: one_at_a_time, ..of("waiting for a place", &[Act::Live(|client| Box::pin(in_line(client)))]) },
    of("waiting for its time", &[Act::Live(|client| Box::pin(at_a_rate(client)))]),
    of(
        "restored from a copy",
        &[
            Act::Live(|client| Box::pin(before_the_copy(client))),
            Act::Offline(back_up),
            Act::Live(|client| Box::pin(after_the_copy(client))),
            Act::Offline(restore),
            Act::Live(|client| Box::pin(after_it_was_restored(client))),
        ],
    ),
];

const fn of(name: &'static str, acts: &'static [Act]) -> Story {
    Story { name, acts, seen: |_| Ok(()) }
}

const CANCELLED: (&str, fn(&Record) -> bool) = ("cancel", |record| matches!(record, Record::CancelRequested { .. }));
const PAUSED: (&str, fn(&Record) -> bool) = ("pause", |record| matches!(record, Record::Paused { .. }));
const RESUMED: (&str, fn(&Record) -> bool) = ("resume", |record| matches!(record, Record::Unpaused { .. }));

fn sleeps(record: &Record) -> bool {
    matches!(record, Record::SleepBegun { .. })
}

async fn cancelled(client: Client) -> anyhow::Result<()> {
    let run = client.run("a", "patient", json!({})).await?;
    client.until_entry(&run, sleeps).await?;
    client.asks(&run, CANCELLED, client.engine.cancel(&run, "a person", "enough")).await?;
    client.until("a", &[Status::Cancelled]).await.map(drop)
}

async fn terminated(client: Client) -> anyhow::Result<()> {
    const TERMINATED: (&str, fn(&Record) -> bool) =
        ("terminate", |record| matches!(record, Record::TerminateRequested { .. }));
    let run = client.run("a", "patient", json!({})).await?;
    client.until_entry(&run, sleeps).await?;
    client.asks(&run, TERMINATED, client.engine.terminate(&run, "a person", "enough")).await?;
    client.until("a", &[Status::Terminated]).await.map(drop)
}

/// The child goes with its parent, and cleans up.
async fn cancelled_with_a_child(client: Client) -> anyhow::Result<()> {
    let run = client.run("a", "household", json!({})).await?;
    client.until_entry(&run, |record| matches!(record, Record::ChildBegun(_))).await?;
    let child = client.child_of(&run).await?;
    client.until_entry(&child, sleeps).await?;
    client.asks(&run, CANCELLED, client.engine.cancel(&run, "a person", "enough")).await?;
    client.until("a", &[Status::Cancelled]).await?;
    client.until_all_are_over().await
}

/// What is sent to a paused run is told to it once it is resumed; that nothing is before is a rule of the journal's.
async fn paused(client: Client) -> anyhow::Result<()> {
    let run = client.run("a", "between", json!({})).await?;
    client.until_entry(&run, |record| matches!(record, Record::WaitBegun { .. })).await?;
    client.asks(&run, PAUSED, client.engine.pause(&run, "a person", "let me see")).await?;
    client.send(&run, "go", 1).await?;
    client.asks(&run, RESUMED, client.engine.resume(&run, "a person", None)).await?;
    client.until("a", &[Status::Succeeded]).await.map(drop)
}

/// Whoever resolves a step asks the other side what became of it.
async fn resolved(client: Client) -> anyhow::Result<()> {
    let run = client.run("a", "unsure", json!({})).await?;
    loop {
        if client.until("a", &[Status::Succeeded, Status::Blocked]).await?.status == Status::Succeeded {
            return Ok(());
        }
        let step =
            client.engine.unknown_steps(&run)?.into_iter().next().context("it is blocked, and nothing is unknown")?;
        client.desk.gate.until_done().await;
        let done = client.desk.world.done().iter().any(|done| done.what.1 == "/lost");
        let finding = if done { Finding::Succeeded(Json::from(&json!({ "status": 201 }))) } else { Finding::Retry };
        let step = step.step.to_string();
        client.engine.resolve(&run, &step, finding, "asked them", "a person").await?;
    }
}

async fn retried(client: Client) -> anyhow::Result<()> {
    const RETRIED: (&str, fn(&Record) -> bool) = ("retry", |record| matches!(record, Record::Rewound { .. }));
    let run = client.run("a", "mended", json!({})).await?;
    if !client.journal(run.key)?.iter().any(|entry| RETRIED.1(&entry.record)) {
        client.until("a", &[Status::Failed]).await?;
    }
    let retry = Retry { digest: Some(client.desk.digests[1].clone()), ..Retry::default() };
    client.asks(&run, RETRIED, client.engine.retry(&run, "a person", retry, "it is mended")).await?;
    client.until("a", &[Status::Succeeded]).await?;
    client.until_all_are_over().await
}

async fn reran(client: Client) -> anyhow::Result<()> {
    let run = client.run("a", "pair", json!({})).await?;
    client.until("a", &[Status::Succeeded]).await?;
    if client.row("again").is_err() {
        let rerun = Rerun { from_step: "b".into(), confirm: true, ..Rerun::default() };
        let ask = RerunAs { rerun, run_key: Some("again".into()), by: "a person".into(), ..RerunAs::default() };
        let (new, _) = client.engine.prepare_rerun(&run, ask).await?;
        client.engine.start_all(vec![new], None).await?;
    }
    client.until("again", &[Status::Succeeded]).await.map(drop)
}

async fn family(client: Client) -> anyhow::Result<()> {
    client.run("a", "family", json!({ "left": 2, "had": [] })).await?;
    client.until("a", &[Status::Succeeded]).await?;
    client.until_all_are_over().await
}

/// One of them at a time. One goes on in another run, which has its place; one is paused and resumed while it waits.
async fn in_line(client: Client) -> anyhow::Result<()> {
    client.limit("turns", Limits { runs: Some(1), ..Limits::default() }).await?;
    let mut runs = Vec::new();
    for (n, goes_on) in [false, true, false, false].into_iter().enumerate() {
        let name = format!("{n}");
        let input = json!({ "url": client.desk.gate.url(), "name": name, "goesOn": goes_on });
        let start = StartRun {
            run_key: Some(name),
            priority: if n == 2 { 1 } else { 0 },
            ..StartRun::new(client.desk.digests[0].clone(), Some("turns".into()), Json::from(&input))
        };
        runs.push(client.started(start).await?);
    }
    client.asks(&runs[2], PAUSED, client.engine.pause(&runs[2], "a person", "let me see")).await?;
    client.asks(&runs[2], RESUMED, client.engine.resume(&runs[2], "a person", None)).await?;
    for name in ["0", "1", "2", "3"] {
        client.until(name, &[Status::Succeeded]).await?;
    }
    let counts = client.engine.store().read().queue_counts("turns", 1)?;
    ensure!(counts.under_way == 0 && counts.waiting == 0, "places have leaked: {counts:?}");
    client.until_all_are_over().await
}

/// One of them begins in each window, and time alone makes room for the next.
async fn at_a_rate(client: Client) -> anyhow::Result<()> {
    let rate = Rate { runs: 1, per_ms: 60, per_key: false };
    client.limit("pair", Limits { rate: Some(rate), ..Limits::default() }).await?;
    let names = ["0", "1", "2"];
    for name in names {
        client.run(name, "pair", json!({})).await?;
    }
    for name in names {
        client.until(name, &[Status::Succeeded]).await?;
    }
    Ok(())
}

/// By what the other side has seen: nobody comes in while another is inside.
fn one_at_a_time(arrivals: &[Arrival]) -> anyhow::Result<()> {
    let (mut inside, mut over) = (BTreeSet::new(), BTreeSet::new());
    for arrival in arrivals {
        let (what, name) = arrival.path[1..].split_once('-').context("a path has two parts")?;
        // A request may be repeated after a death.
        match what {
            "in" if !over.contains(name) => drop(inside.insert(name)),
            "in" => {}
            _ => {
                inside.remove(name);
                over.insert(name);
            }
        }
        ensure!(inside.len() <= 1, "{inside:?} are under way");
    }
    Ok(())
}

async fn before_the_copy(client: Client) -> anyhow::Result<()> {
    let run = client.run("a", "between", json!({})).await?;
    client.until_entry(&run, |record| matches!(record, Record::WaitBegun { .. })).await?;
    client.until("a", &[Status::Waiting]).await.map(drop)
}

async fn after_the_copy(client: Client) -> anyhow::Result<()> {
    let run = client.run("a", "between", json!({})).await?;
    client.send(&run, "go", 1).await?;
    client.until("a", &[Status::Succeeded]).await.map(drop)
}

/// The second write was made after the copy. Nothing of it is made again; a person asks what became of it.
async fn after_it_was_restored(client: Client) -> anyhow::Result<()> {
    let run = client.run("a", "between", json!({})).await?;
    client.send(&run, "go", 1).await?;
    client.asks(&run, RESUMED, client.engine.resume(&run, "a person", None)).await?;
    if client.until("a", &[Status::Succeeded, Status::Blocked]).await?.status == Status::Blocked {
        let made = client.desk.world.done().iter().filter(|done| done.what.1 == "/second").count();
        ensure!(made == 1, "it was made {made} times");
        let finding = Finding::Succeeded(Json::from(&json!({ "status": 201 })));
        client
            .asks(
                &run,
                ("resolve", |record| matches!(record, Record::Resolved { .. })),
                client.engine.resolve(&run, "second", finding, "asked them", "a person"),
            )
            .await?;
        client.until("a", &[Status::Succeeded]).await?;
    }
    let resolved = client.journal(run.key)?.iter().any(|entry| matches!(entry.record, Record::Resolved { .. }));
    ensure!(resolved, "what was made after the copy is taken for known");
    Ok(())
}

impl Client {
    /// Limits a workflow, where it is not.
    async fn limit(&self, workflow: &str, limits: Limits) -> anyhow::Result<()> {
        if self.engine.store().read().limits_of(workflow)?.is_none() {
            let row = LimitsRow { workflow: workflow.into(), limits, set_at_ms: 1, set_by: "a person".into() };
            let actions = vec![Action::SetLimits(row)];
            self.engine.store().submit(Submission { actions, answer: None }).await?;
        }
        Ok(())
    }

    /// Sends an event; a repetition is the first.
    async fn send(&self, run: &RunRef, name: &str, payload: u32) -> anyhow::Result<()> {
        if !self.engine.run(&run.id)?.is_some_and(|row| row.status.is_finished()) {
            self.engine.send_event(run.key, name, &Json::from(&json!(payload)), Some(name.to_owned())).await?;
        }
        Ok(())
    }
}
