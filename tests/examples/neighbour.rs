//! How long a well-behaved run takes beside each hostile guest, against how long it takes alone. A measurement, not a test:
//!
//! ```text
//! cargo run --release -p stepwell-tests --example neighbour            # every guest of tests/hostile
//! cargo run --release -p stepwell-tests --example neighbour -- loop memory-bomb    # those that are called so, or begin so
//! cargo run --release -p stepwell-tests --example neighbour -- --at-once 2 --uploaded
//! ```
//!
//! The neighbour has two steps and a sleep of 1 ms, and waits for the disk as every run does. All the while a hostile run is under way, or
//! `--at-once` so many; each is begun anew when it ends. With `--uploaded` each is of a module that was uploaded just before, and is compiled
//! first.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

#[allow(dead_code, reason = "the tests need all of it")]
#[path = "../it/hostile/guest.rs"]
mod guest;
#[allow(dead_code, reason = "the tests need all of it")]
#[path = "../it/hostile/house.rs"]
mod house;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Parser as _;
use guest::{Budget, Guest, guests};
use house::House;
use stepwell_core::ids::Digest;

/// As in the binary: what large values cost is what their memory costs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs of the neighbour that a line is made of.
const RUNS: usize = 400;
/// A guest that holds the neighbour up for longer than this has fewer runs.
const AT_MOST: Duration = Duration::from_secs(20);

fn main() -> std::io::Result<()> {
    stepwell_engine::runtime(|| {})?.block_on(measure());
    Ok(())
}

async fn measure() {
    let asked = Asked::parse();
    let wanted = |name: &str| asked.names.is_empty() || asked.names.iter().any(|word| name.starts_with(word.as_str()));
    let house = Arc::new(House::new(Budget::Short).await);
    // The first runs pay for what all later ones find ready.
    let _ = neighbours(&house).await;
    let quiet = neighbours(&house).await;
    println!(
        "{:<58} {:>5} {:>8} {:>9} {:>9} {:>9} {:>7}",
        "beside", "runs", "hostile", "p50 ms", "p99 ms", "max ms", "p99 x"
    );
    line("nobody", &quiet, 0, &quiet);
    let all = ["both", "runs", "modules"].into_iter().flat_map(guests);
    let large = wanted(LARGE).then(large);
    for guest in all.filter(|guest| wanted(&guest.name)).chain(large) {
        // Some are refused by the tools that would make a component of them: there is nothing to run.
        if guest.component.is_err() {
            println!("{:<58} {:>5}", guest.name, "none");
            continue;
        }
        let (took, hostile) = beside(&house, &guest, &asked).await;
        line(&guest.name, &took, hostile, &quiet);
    }
}

/// How long a well-behaved run takes beside each hostile guest, against how long it takes alone.
#[derive(clap::Parser)]
struct Asked {
    /// Guests that are called so, or begin so; without any, all of them.
    names: Vec<String>,
    /// Hostile runs at once.
    #[arg(long, value_name = "N", default_value_t = 1)]
    at_once: usize,
    /// Each hostile run is of a module that was uploaded just before.
    #[arg(long)]
    uploaded: bool,
}

const LARGE: &str = "large module that is compiled";

/// A module that takes long to compile, and a new one each time, so that no cache helps.
fn large() -> Guest {
    let add = "(local.set 0 (i32.add (i32.mul (local.get 0) (local.get 1)) (i32.load (local.get 0))))".repeat(200);
    let function = format!("(func (param i32 i32) (result i32) {add} (local.get 0))\n");
    let text = format!("{}(func $run (result i32) (call $ok-null))", function.repeat(2_000));
    Guest { name: LARGE.to_owned(), verdict: String::new(), also: Vec::new(), component: Ok(guest::made(&text)) }
}

/// How long runs of the neighbour take, one after another, sorted.
async fn neighbours(house: &House) -> Vec<Duration> {
    let began = Instant::now();
    let mut took = Vec::new();
    while took.len() < RUNS && began.elapsed() < AT_MOST {
        let start = Instant::now();
        house.neighbour().await;
        took.push(start.elapsed());
    }
    took.sort_unstable();
    took
}

/// The same beside a guest; and how many of its runs ended meanwhile.
async fn beside(house: &Arc<House>, guest: &Guest, asked: &Asked) -> (Vec<Duration>, usize) {
    let Ok(component) = &guest.component else { return (Vec::new(), 0) };
    // What is made to be compiled is.
    let uploaded = asked.uploaded || guest.name == LARGE;
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::new(AtomicUsize::new(0));
    let hostile: Vec<_> = (1..=asked.at_once)
        .map(|one| {
            let (house, component) = (house.clone(), component.clone());
            let (over, ended) = (over.clone(), ended.clone());
            tokio::spawn(async move {
                let (mut round, mut digest) = (0, None);
                while !over.load(Ordering::Relaxed) {
                    if uploaded || digest.is_none() {
                        round += 1;
                        digest = upload(&house, unlike(&component, one * 1_000_000 + round)).await;
                    }
                    if let Some(digest) = &digest {
                        house.run(digest).await;
                    }
                    ended.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let took = neighbours(house).await;
    let count = ended.load(Ordering::Relaxed);
    over.store(true, Ordering::Relaxed);
    for task in hostile {
        task.await.expect("hostile runs end too");
    }
    (took, count)
}

/// None where it is refused, as modules are that are hostile by themselves.
async fn upload(house: &House, component: Vec<u8>) -> Option<Digest> {
    let module = house.engine.add_module(component).await.ok()?;
    (module.workflows.len() == 1).then_some(module.digest)
}

/// The same component by another digest: with a custom section that nobody reads.
fn unlike(component: &[u8], number: usize) -> Vec<u8> {
    let mut bytes = component.to_vec();
    bytes.extend([0, 9, 0]);
    bytes.extend(number.to_le_bytes());
    bytes
}

fn line(name: &str, took: &[Duration], hostile: usize, quiet: &[Duration]) {
    let at = |took: &[Duration], percent: usize| {
        took.get((took.len() * percent / 100).min(took.len().saturating_sub(1))).copied()
    };
    let ms = |time: Option<Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1_000.0);
    let (p50, p99, max) = (ms(at(took, 50)), ms(at(took, 99)), ms(took.last().copied()));
    let times = p99 / ms(at(quiet, 99));
    println!("{name:<58} {:>5} {hostile:>8} {p50:>9.2} {p99:>9.2} {max:>9.2} {times:>7.1}", took.len());
}
