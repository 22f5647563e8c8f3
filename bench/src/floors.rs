//! What Stepwell stands on, each alone: the disk, the store's writer, a guest's calls, the HTTP client.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use stepwell_core::contract::{EffectKey, Request};
use stepwell_core::ids::{Digest, RunId};
use stepwell_engine::http::{Destinations, HttpClient, Outbound, Teardown};
use stepwell_store::{Append, NewRun, SqliteOptions, SqliteStore, Started, Store};
use tokio::task::JoinSet;

use crate::figures::{CPU, Figures, P50, P99, RATE, quantile};
use crate::machine::Meter;
use crate::runs::micros;

/// The disk: a page is written over in a file that has its size, and synced, as a commit does it.
pub(crate) fn fdatasync(dir: &Path, times: u32) -> Result<Figures> {
    const PAGE: usize = 8 << 10;
    const PAGES: u64 = 512;
    let file = tempfile::tempfile_in(dir)?;
    let page = [1_u8; PAGE];
    for n in 0..PAGES {
        file.write_all_at(&page, n * PAGE as u64)?;
    }
    file.sync_all()?;
    let mut took = Vec::new();
    let meter = Meter::start();
    for n in 0..u64::from(times) {
        let began = Instant::now();
        write_and_sync(&file, &page, n % PAGES * PAGE as u64)?;
        took.push(micros(began.elapsed()));
    }
    let rate = f64::from(times) / meter.wall().as_secs_f64();
    Ok(Figures::default().with(RATE, rate).with(P50, quantile(&mut took, 0.5)).with(P99, quantile(&mut took, 0.99)))
}

fn write_and_sync(file: &File, page: &[u8], at: u64) -> Result<()> {
    file.write_all_at(page, at)?;
    Ok(file.sync_data()?)
}

/// Entries that a run hands over together while nobody waits for it, as the engine has it.
pub(crate) const TOGETHER: usize = 32;

/// The store's writer alone: as many runs hand over the entries of as many steps, so many together.
pub(crate) async fn writer(dir: &Path, at_once: u32, steps: u32, step: &[Vec<u8>], together: usize) -> Result<Figures> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&dir.join("writer"), SqliteOptions::default())?);
    let mut runs = Vec::new();
    for n in 0..at_once {
        let run = NewRun {
            run: RunId::new(format!("run_{n}")),
            workflow: "writer".to_owned(),
            digest: Digest::of(b"none"),
            run_key: None,
            created_at_ms: 1,
            first: vec![step[0].clone()],
            inbox: Vec::new(),
            tags: Vec::new(),
            begins_at_ms: None,
            retry_of: None,
            rerun: None,
            queue: stepwell_store::QueueAs::default(),
        };
        runs.push(store.start_run(run));
    }
    let mut keys = Vec::new();
    for run in runs {
        match run.await? {
            Started::New(key) => keys.push(key),
            Started::Existing { .. } => bail!("the store was empty"),
        }
    }
    let meter = Meter::start();
    let mut writing = JoinSet::new();
    for run in keys {
        let (store, step) = (store.clone(), step.to_vec());
        writing.spawn(async move {
            let (mut seq, mut last) = (1, None);
            let entries = step.len() * steps as usize;
            for from in (0..entries).step_by(together) {
                let batch = (from..entries.min(from + together)).map(|at| step[at % step.len()].clone());
                let batch: Vec<_> = batch.collect();
                let next = seq + batch.len() as u64;
                last = Some(store.append(Append::entries(run, seq, batch)));
                seq = next;
            }
            match last {
                Some(ticket) => store.durable(ticket).await,
                None => Ok(()),
            }
        });
    }
    while let Some(done) = writing.join_next().await {
        done??;
    }
    let all = f64::from(at_once) * f64::from(steps);
    Ok(Figures::default().with(RATE, all / meter.wall().as_secs_f64()).with(CPU, micros(meter.cpu()) / all))
}

/// The request that a step of the workflow `post` makes.
fn request(url: &str, n: u32) -> Request {
    Request {
        method: "POST".to_owned(),
        url: url.to_owned(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: Some(format!("{{\"i\":{n}}}").into_bytes()),
        timeout_ms: None,
        key: EffectKey::Effect,
        label: None,
        renew_on: Vec::new(),
    }
}

/// The product's client against the same server, without Stepwell: `url` says where each of the callers posts.
pub(crate) async fn requests(
    client: &HttpClient,
    at_once: u32,
    times: u32,
    url: impl Fn(u32) -> String,
) -> Result<Figures> {
    let meter = Meter::start();
    let mut calling = JoinSet::new();
    for caller in 0..at_once {
        let (client, url) = (client.clone(), url(caller));
        calling.spawn(async move {
            for n in 0..times {
                let outbound = Outbound {
                    request: request(&url, n),
                    key_header: Some(format!("run_0123456789abcdef0123456789abcdef:post#{n}:e1")),
                    destinations: Destinations::Any,
                    secrets: None,
                };
                let outcome = client.send(outbound, Teardown::never()).await;
                match outcome.answer {
                    Ok(answer) if answer.status == 200 => {}
                    other => bail!("a bare request failed: {other:?}"),
                }
            }
            Ok(())
        });
    }
    while let Some(done) = calling.join_next().await {
        done??;
    }
    let all = f64::from(at_once) * f64::from(times);
    Ok(Figures::default().with(RATE, all / meter.wall().as_secs_f64()).with(CPU, micros(meter.cpu()) / all))
}
