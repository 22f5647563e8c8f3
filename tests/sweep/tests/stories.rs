//! Runs that somebody does something with while they go on, in a process that dies at points that `SEED` chooses; with `POINTS=all` at
//! every one.

#![cfg(feature = "sweep")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use stepwell_sweep::stories::{Modules, STORIES, sweep};
use stepwell_sweep::sweep::Way;
use stepwell_sweep::table::Table;

/// Points of each story in each way of gathering.
const POINTS: usize = 12;

#[test]
fn every_story_bears_deaths() {
    let var = |name: &str| std::env::var(name).ok();
    let seed = var("SEED").map_or(1, |text| text.parse().unwrap());
    let most = match var("POINTS").as_deref() {
        Some("all") => None,
        Some(text) => Some(text.parse().unwrap()),
        None => Some(POINTS),
    };
    let only = var("STORY");
    println!("SEED={seed}");
    let modules = Modules::build().unwrap();
    let mut table = Table::default();
    for story in STORIES {
        if only.as_ref().is_some_and(|only| !story.name.contains(only.as_str())) {
            continue;
        }
        let begun = std::time::Instant::now();
        let part = sweep(story, &modules, Way { most, ..Way::whole(seed) }).unwrap();
        println!("{}: {} deaths, {} held, in {:.1?}", story.name, part.died(), part.held(), begun.elapsed());
        table.add(part);
    }
    println!("{table}");
    assert!(table.failures.is_empty(), "{} cases did not hold", table.failures.len());
    assert!(table.died() > 0);
}
