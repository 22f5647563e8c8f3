//! Kills a process under load, again and again, and holds what is left against what was said and what the other side saw.

pub mod victim;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use stepwell_core::json::Json;
use stepwell_engine::store::{Reads as _, RunFilter, RunRow, Status};

use crate::gate::{Behind, Gate};
use crate::world::World;

/// How long a victim may say nothing that is waited for. Nobody waits for this: who runs into it has hung.
const HANGS: Duration = Duration::from_secs(120);

/// What a victim says once it has taken up all runs.
pub const READY: &str = "ready";

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How often to kill.
    pub kills: u32,
    /// Runs under way.
    pub runs: usize,
    /// What chance decides.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Kills.
    pub kills: u32,
    /// Runs that were under way at each kill, in the mean.
    pub under_way: usize,
    /// Runs in the database at the end, by status.
    pub runs: BTreeMap<String, usize>,
    /// Requests that the other side saw.
    pub requests: usize,
    /// Operations that it did.
    pub done: usize,
    /// How long it all took.
    pub took: Duration,
    /// What did not hold.
    pub broken: Vec<String>,
}

impl Verdict {
    /// Whether every promise was kept.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.broken.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, under_way, requests, done, took, .. } = self;
        writeln!(f, "{kills} kills in {took:.1?}, with {under_way} runs under way at each in the mean")?;
        let total: usize = self.runs.values().sum();
        let by: Vec<String> = self.runs.iter().map(|(status, count)| format!("{count} {status}")).collect();
        writeln!(f, "{total} runs: {}", by.join(", "))?;
        writeln!(f, "{requests} requests, {done} operations done")?;
        for broken in self.broken.iter().take(20) {
            writeln!(f, "BROKEN: {broken}")?;
        }
        write!(f, "{}", if self.holds() { "every promise was kept" } else { "promises were broken" })
    }
}

/// Runs the plan, with this very program as the victim.
///
/// # Errors
/// When it cannot be carried out; broken promises are in the verdict.
pub fn run(plan: &Plan) -> anyhow::Result<Verdict> {
    let begun = Instant::now();
    let scratch = tempfile::tempdir()?;
    let module = scratch.path().join("load.wasm");
    let source = scratch.path().join("load.ts");
    std::fs::write(&source, include_str!("../soak.ts"))?;
    let built = stepwell_build::build(&source, &stepwell_build::BuildOptions::default(), &|_| {})?;
    std::fs::write(&module, built.component)?;
    let dir = scratch.path().join("data");
    let world = Arc::new(World::new(plan.seed, 0.08).slow());
    let gate = Gate::start(Behind::World(world.clone()))?;
    let spawn = |runs: usize| Victim::spawn(&dir, &module, &gate.url(), runs);

    let mut random = SmallRng::seed_from_u64(plan.seed);
    let mut said = Vec::new();
    let (mut sum, mut verdict) = (0, Verdict { kills: plan.kills, ..Verdict::default() });
    for _ in 0..plan.kills {
        let mut victim = spawn(plan.runs)?;
        victim.until(READY, &mut said)?;
        // Some way into its work, however fast the machine is, and then at any moment.
        victim.until_lines(random.random_range(1..40), &mut said)?;
        victim.until_time(Duration::from_millis(random.random_range(0..300)), &mut said)?;
        victim.kill(&mut said)?;
        sum += under_way(&dir)?;
    }
    verdict.under_way = sum / (plan.kills.max(1) as usize);
    // The last one has nothing to start: what is under way comes to its end.
    spawn(0)?.end_by_itself(&mut said)?;
    judge(&dir, &said, &world, &mut verdict)?;
    verdict.requests = gate.arrivals().len();
    verdict.took = begun.elapsed();
    Ok(verdict)
}

/// A process, and its lines.
struct Victim {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Victim {
    fn spawn(dir: &Path, module: &Path, url: &str, runs: usize) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("victim").arg(dir).arg(module).arg(url).arg(runs.to_string());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // A line that the kill cut short has no end, and is none.
            let mut reader = BufReader::new(stdout);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|n| n > 0) && line.ends_with('\n') {
                if sender.send(std::mem::take(&mut line).trim_end().to_owned()).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines })
    }

    fn until(&mut self, last: &str, said: &mut Vec<String>) -> anyhow::Result<()> {
        loop {
            let line = self.lines.recv_timeout(HANGS).with_context(|| format!("the victim does not say {last:?}"))?;
            if line == last {
                return Ok(());
            }
            said.push(line);
        }
    }

    fn until_lines(&mut self, lines: usize, said: &mut Vec<String>) -> anyhow::Result<()> {
        for _ in 0..lines {
            said.push(self.lines.recv_timeout(HANGS).context("the victim says nothing more")?);
        }
        Ok(())
    }

    fn until_time(&mut self, time: Duration, said: &mut Vec<String>) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => said.push(line),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => bail!("the victim ended by itself: {:?}", self.child.wait()?),
            }
        }
    }

    /// SIGKILL. What it had said before counts.
    fn kill(mut self, said: &mut Vec<String>) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        said.extend(self.lines.iter());
        Ok(())
    }

    fn end_by_itself(mut self, said: &mut Vec<String>) -> anyhow::Result<()> {
        loop {
            match self.lines.recv_timeout(HANGS) {
                Ok(line) if line == READY => {}
                Ok(line) => said.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => bail!("runs do not come to their end"),
            }
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "the last victim: {status}");
        Ok(())
    }
}

fn rows(dir: &Path) -> anyhow::Result<Vec<RunRow>> {
    let reads = stepwell_store::read_only(dir)?;
    let (mut rows, mut before) = (Vec::new(), None);
    loop {
        let page = reads.runs(&RunFilter { before, limit: 500, ..RunFilter::default() })?;
        ensure!(page.unreadable.is_empty(), "unreadable: {:?}", page.unreadable);
        let Some(last) = page.runs.last() else { return Ok(rows) };
        before = Some(last.key);
        rows.extend(page.runs);
    }
}

fn under_way(dir: &Path) -> anyhow::Result<usize> {
    Ok(stepwell_store::read_only(dir)?
        .unfinished()?
        .0
        .iter()
        .filter(|row| !matches!(row.status, Status::Blocked | Status::Paused))
        .count())
}

fn judge(dir: &Path, said: &[String], world: &World, verdict: &mut Verdict) -> anyhow::Result<()> {
    let rows = rows(dir)?;
    let reads = stepwell_store::read_only(dir)?;
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    for operation in world.done() {
        *done.entry(operation.what.1).or_default() += 1;
        verdict.done += 1;
    }
    let by_n: BTreeMap<String, &RunRow> = rows.iter().filter_map(|row| Some((row.run_key.clone()?, row))).collect();
    let broken = &mut verdict.broken;
    for (n, row) in &by_n {
        *verdict.runs.entry(row.status.to_string()).or_default() += 1;
        let times = |path: &str| done.get(&format!("/{path}/{n}")).copied().unwrap_or(0);
        let once = n.parse::<u64>().is_ok_and(|n| n % 5 == 0);
        // At most once, however the run fared.
        for path in ["reserve", "charge", "transfer", "mail"] {
            if times(path) > 1 {
                broken.push(format!("run {n}: {path} was done {} times", times(path)));
            }
        }
        match row.status {
            Status::Succeeded => {
                let outcome = reads.run_by_number(row.key)?.and_then(|row| row.outcome);
                let expected = format!("{{\"n\":{n}}}");
                if outcome.as_deref().and_then(|text| Json::parse(text).ok()) != Json::parse(&expected).ok() {
                    broken.push(format!("run {n}: its result is {outcome:?}"));
                }
                let missing = |path: &&&str| times(path) != 1;
                let wanted: &[&str] =
                    if once { &["reserve", "charge", "transfer", "mail"] } else { &["reserve", "charge", "mail"] };
                if let Some(path) = wanted.iter().find(missing) {
                    broken.push(format!("run {n} succeeded, and {path} was done {} times", times(path)));
                }
            }
            Status::Blocked if once && times("mail") == 0 => {}
            status => broken.push(format!("run {n} is {status}: {:?}", row.detail)),
        }
    }
    for line in said {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("started"), Some(n), None) if by_n.contains_key(n) => {}
            (Some("ended"), Some(n), Some(status))
                if by_n.get(n).is_some_and(|row| row.status.to_string() == status) => {}
            _ => broken.push(format!("the victim said {line:?}, and it is not so")),
        }
    }
    broken.extend(world.conflicts());
    Ok(())
}
