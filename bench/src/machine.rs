//! What the machine says of a process and of a directory.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Real and computing time since it was started.
pub(crate) struct Meter {
    began: Instant,
    cpu: Duration,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), cpu: cpu_time("self") }
    }

    pub(crate) fn wall(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn cpu(&self) -> Duration {
        cpu_time("self").saturating_sub(self.cpu)
    }
}

/// Computing time of a process (`self` or its number), in all of its threads, those that have ended too. The kernel counts it in ticks of
/// 10 ms.
pub(crate) fn cpu_time(process: &str) -> Duration {
    const TICK_MS: u64 = 10;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may hold anything, so the fields are counted from its end: the 12th and 13th are what is looked for.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * TICK_MS)
}

/// Memory of a process that is resident, in bytes, and of that what is its own (neither a file's nor shared).
pub(crate) fn resident(pid: u32) -> Result<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("the kernel tells no such field")?;
        let kib: u64 = line.trim_start_matches(':').trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    };
    Ok((field("VmRSS")?, field("RssAnon")?))
}

/// Refuses a directory in memory: what is measured there is no disk.
pub(crate) fn must_be_on_disk(dir: &Path) -> Result<()> {
    let dir = dir.canonicalize()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let nearest = mounts.filter(|(at, _)| dir.starts_with(at)).max_by_key(|(at, _)| at.len());
    if let Some((_, kind @ ("tmpfs" | "ramfs"))) = nearest {
        bail!("{} is in memory ({kind}), not on a disk: name another with --dir", dir.display());
    }
    Ok(())
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
