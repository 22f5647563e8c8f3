//! Writes to a store as fast as it can, and notes in a file of its own what it was told is durable. What it does to the disk is
//! logged by `shim/disk.c`; it is no use by itself.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Parser;
use stepwell_core::ids::{Digest, RunId};
use stepwell_store::{Append, Durability, NewEvent, NewRun, SqliteOptions, SqliteStore, Started, Store as _};

/// Arguments.
#[derive(Debug, Parser)]
struct Args {
    /// The data directory.
    dir: PathBuf,
    /// Tells lives apart.
    life: u32,
    /// Entries that each writer appends.
    entries: u64,
    /// The size of each, in bytes.
    size: usize,
    /// Waits for the disk less than it should.
    #[arg(long)]
    normal: bool,
    /// Ends without closing anything.
    #[arg(long)]
    dies: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let durability = if args.normal { Durability::Process } else { Durability::Disk };
    let store = SqliteStore::open(&args.dir, SqliteOptions { durability, ..SqliteOptions::default() })?;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                scope.spawn({
                    let (args, store) = (&args, &store);
                    move || write(args, store, writer)
                })
            })
            .collect();
        writers.into_iter().try_for_each(|writer| writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?)
    })?;
    if args.dies {
        std::process::exit(0);
    }
    Ok(())
}

fn write(args: &Args, store: &SqliteStore, writer: u64) -> anyhow::Result<()> {
    let new = NewRun {
        run: RunId::new(format!("run_{}_{writer}", args.life)),
        workflow: "w".to_owned(),
        digest: Digest::of(b"m"),
        run_key: None,
        created_at_ms: 0,
        first: vec![entry(0, args.size)],
        inbox: Vec::new(),
        tags: Vec::new(),
        begins_at_ms: None,
        retry_of: None,
        rerun: None,
        queue: stepwell_store::QueueAs::default(),
    };
    let Started::New(run) = store.start_run(new).wait()? else { anyhow::bail!("the run is there") };
    note(&args.dir, run, 0)?;
    for seq in 1..args.entries {
        let ticket = store.append(Append::entries(run, seq, vec![entry(seq, args.size)]));
        // Some are waited for one by one, some by the dozen.
        if seq % (1 + 5 * writer) == 0 {
            store.flush(ticket)?;
            note(&args.dir, run, seq)?;
        }
        if seq % 16 == 0 {
            let event = NewEvent { run, name: "e".to_owned(), payload: "1".to_owned(), dedup: None };
            store.send_event(event).wait()?;
        }
    }
    Ok(())
}

/// Bytes that say which entry they are.
fn entry(seq: u64, size: usize) -> Vec<u8> {
    seq.to_le_bytes().into_iter().cycle().take(size.max(8)).collect()
}

/// One write for a line, so that lines of several writers do not mix.
fn note(dir: &Path, run: i64, seq: u64) -> anyhow::Result<()> {
    let mut notes = File::options().append(true).create(true).open(dir.join("notes"))?;
    notes.write_all(format!("{run} {seq}\n").as_bytes())?;
    Ok(())
}
