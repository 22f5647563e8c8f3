//! Each target for a number of inputs from a seed, and for every file of its corpus as it is and damaged.
//!
//! `STEPWELL_FUZZ_INPUTS` changes the number, `STEPWELL_FUZZ_SEED` the seed. A failing input is written to a file; with its path in
//! `STEPWELL_FUZZ_INPUT` the target runs on that alone.

#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use stepwell_fuzz::TARGETS;

/// No input takes this long: one that does hangs.
const HANGS: Duration = Duration::from_secs(120);
/// The longest input that is made here.
const MAX_BYTES: usize = 3 << 10;

macro_rules! targets {
    ($($name:ident: $inputs:literal,)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name), $inputs);
        })*

        #[test]
        fn every_target_is_run_here_and_has_its_binary() {
            let named: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(named, [$(stringify!($name)),*]);
            for name in named {
                let binary = here().join("../../fuzz/fuzz_targets").join(format!("{name}.rs"));
                let text = std::fs::read_to_string(&binary).unwrap_or_else(|e| panic!("{}: {e}", binary.display()));
                assert!(text.contains(&format!("stepwell_fuzz::{name}::{name}(data)")), "{}", binary.display());
            }
        }
    };
}

targets! {
    journal: 10_000,
    machine: 3_000,
    recovery: 3_000,
    retry: 5_000,
    policy: 5_000,
    keys: 2_000,
    http: 1_500,
    module: 300,
    reach: 3_000,
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn run(name: &str, inputs: u64) {
    let (_, target) = TARGETS.iter().find(|(other, _)| *other == name).unwrap();
    let watched = watch(name);
    let check = |input: &[u8]| {
        watched.send(input.to_vec()).unwrap();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
            eprintln!("again, alone: STEPWELL_FUZZ_INPUT={}", kept(name, input).display());
            resume_unwind(panic);
        }
    };
    if let Some(path) = std::env::var_os("STEPWELL_FUZZ_INPUT") {
        return check(&std::fs::read(path).unwrap());
    }
    let corpus = corpus(name);
    corpus.iter().for_each(|input| check(input));
    let seed = number("STEPWELL_FUZZ_SEED").unwrap_or(1);
    let inputs = number("STEPWELL_FUZZ_INPUTS").unwrap_or(inputs);
    for at in 0..inputs {
        let mut rng = SmallRng::seed_from_u64(seed << 32 | at);
        let input = if rng.random_bool(0.5) { made(&mut rng) } else { damaged(&corpus, &mut rng) };
        check(&input);
    }
}

/// Where an input is written that something does not hold for.
fn kept(name: &str, input: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("stepwell-fuzz-{name}-{}", std::process::id()));
    std::fs::write(&path, input).unwrap();
    path
}

/// Ends the process where an input does not come to its end.
fn watch(name: &str) -> Sender<Vec<u8>> {
    let (sender, inputs) = channel::<Vec<u8>>();
    let name = name.to_owned();
    std::thread::spawn(move || {
        let mut last = Vec::new();
        loop {
            match inputs.recv_timeout(HANGS) {
                Ok(input) => last = input,
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    eprintln!("{name} hangs: STEPWELL_FUZZ_INPUT={}", kept(&name, &last).display());
                    std::process::abort();
                }
            }
        }
    });
    sender
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let dir = here().join("corpus").join(name);
    let files = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", dir.display());
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Bytes of any kind: even ones, few different ones, runs of one.
fn made(rng: &mut SmallRng) -> Vec<u8> {
    let length = rng.random_range(0..=MAX_BYTES) >> rng.random_range(0..6);
    let few: [u8; 4] = rng.random();
    let kind = rng.random_range(0..4);
    let run = Cell::new((0, 0));
    (0..length)
        .map(|_| match kind {
            0 => *few.choose(rng).unwrap(),
            1 => {
                let (byte, left) = run.get();
                run.set(if left == 0 { (rng.random(), rng.random_range(1..9)) } else { (byte, left - 1) });
                run.get().0
            }
            _ => rng.random(),
        })
        .collect()
}

/// A file of the corpus, changed a little or joined with another.
fn damaged(corpus: &[Vec<u8>], rng: &mut SmallRng) -> Vec<u8> {
    let mut input = corpus.choose(rng).unwrap().clone();
    for _ in 0..rng.random_range(1..6) {
        let at = rng.random_range(0..=input.len());
        match rng.random_range(0..6) {
            0 => input.truncate(at.max(1)),
            1 => input.insert(at, rng.random()),
            2 => {
                let other = corpus.choose(rng).unwrap();
                let from = rng.random_range(0..=other.len());
                let to = rng.random_range(from..=other.len());
                input.splice(at..at, other[from..to].iter().copied());
            }
            _ if at < input.len() => match rng.random_range(0..4) {
                0 => drop(input.remove(at)),
                1 => input[at] ^= 1 << rng.random_range(0..8),
                _ => input[at] = rng.random(),
            },
            _ => {}
        }
    }
    input.truncate(4 * MAX_BYTES);
    input
}
