//! Peers at work: each in processes of its own, asked for the same steps as Stepwell.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tempfile::TempDir;

use crate::figures::Figures;
use crate::guests::Guest;
use crate::lab::Lab;
use crate::machine;
use crate::peer::{Peer, parse};
use crate::report::Report;
use crate::runs::Took;

/// Longer than any measurement takes.
const PATIENCE: Duration = Duration::from_secs(900);

const TERMS: &str = "A peer makes at most 500 steps a run, and fewer where runs are many; its clock starts when all of its runs are \
    written down, as Stepwell's does. stepwell: each commit waits for the disk; entries that no request waits for are handed over \
    together, and all of a run's are on the disk before its end is told.";

/// What it says when it is ready.
#[derive(Deserialize)]
struct Ready {
    pids: Vec<u32>,
    settings: String,
}

#[derive(Deserialize)]
struct Seen {
    each_us: Vec<f64>,
}

/// Those that are measured beside Stepwell, at work.
pub(crate) struct Peers(Vec<Running>);

/// Work for a peer: runs that each make so many steps, posting to a path of their own below the URL where there is one.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) at_once: u32,
    pub(crate) steps: u32,
    pub(crate) url: Option<&'a str>,
}

impl Peers {
    /// Starts those that were asked for. Who does not start is a note.
    pub(crate) fn start(lab: &Lab, report: &mut Report) -> Self {
        let most = lab.at_once.iter().copied().max().unwrap_or(1);
        let mut all = Vec::new();
        for (peer, versions) in &lab.peers {
            let name = peer.name();
            match Running::start(*peer, lab.root(), most) {
                Ok((running, settings)) => {
                    report.note_once(format!("{name}: {versions}. {}", peer.durability(&settings)));
                    all.push(running);
                }
                Err(error) => report.note(format!("{name} ({versions}) could not be started: {error:#}")),
            }
        }
        if !all.is_empty() {
            report.note_once(TERMS.to_owned());
        }
        Self(all)
    }

    /// Those that are compared with this guest, and have not failed before.
    pub(crate) fn beside(&mut self, guest: &Guest) -> impl Iterator<Item = &mut Running> {
        let compared = guest.name == "ts";
        self.0.iter_mut().filter(move |peer| compared && !peer.failed)
    }
}

/// Steps of each run that are asked of a peer: fewer than of Stepwell, where many take long.
pub(crate) fn steps(lab: &Lab, at_once: u32) -> u32 {
    (lab.scaled(4_000, 1_000) / at_once).clamp(8, 500)
}

/// A peer's processes, ended when this is dropped.
pub(crate) struct Running {
    peer: Peer,
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    pids: Vec<u32>,
    failed: bool,
    _dir: TempDir,
}

impl Running {
    /// Starts it in a directory of its own and lets it do a little; also what it says of its settings.
    fn start(peer: Peer, root: &Path, most: u32) -> Result<(Self, String)> {
        let dir = tempfile::Builder::new().prefix("peer-").tempdir_in(root)?;
        let mut command = peer.command();
        command.arg(dir.path()).arg(most.to_string());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().context("the peer has no output")?;
        let (said, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.into_iter().try_for_each(|line| said.send(line))
        });
        let mut running = Self { peer, process, stdin, lines, pids: Vec::new(), failed: false, _dir: dir };
        let Ready { pids, settings } = running.answer()?;
        running.pids = pids;
        running.measure(Work { at_once: 1, steps: 20, url: None })?;
        Ok((running, settings))
    }

    pub(crate) fn name(&self) -> &'static str {
        self.peer.name()
    }

    /// Does the work. What goes wrong is a note, and the last that is heard of this peer.
    pub(crate) fn figures(&mut self, work: Work<'_>, report: &mut Report) -> Option<Figures> {
        match self.measure(work) {
            Ok(took) => Some(took.of_steps()),
            Err(error) => {
                self.failed = true;
                let name = self.name();
                report.note(format!("{name} could not be measured at {} runs at once: {error:#}", work.at_once));
                None
            }
        }
    }

    fn measure(&mut self, Work { at_once, steps, url }: Work<'_>) -> Result<Took> {
        let mut asked = json!({ "runs": at_once, "steps": steps });
        if let Some(url) = url {
            asked["url"] = url.into();
        }
        let cpu = self.cpu();
        let stdin = self.stdin.as_mut().context("the peer has no input")?;
        writeln!(stdin, "{asked}")?;
        stdin.flush()?;
        let Seen { each_us } = self.answer()?;
        if each_us.len() != at_once as usize {
            bail!("{} of {at_once} runs ended", each_us.len());
        }
        let each: Vec<_> = each_us.into_iter().map(|us| Duration::from_secs_f64(us / 1e6)).collect();
        Ok(Took::new(self.cpu().saturating_sub(cpu), each, steps))
    }

    fn answer<T: DeserializeOwned>(&self) -> Result<T> {
        let line = self.lines.recv_timeout(PATIENCE);
        parse(&line.map_err(|error| anyhow::anyhow!("{} does not answer: {error}", self.name()))?)
    }

    fn cpu(&self) -> Duration {
        self.pids.iter().map(|pid| machine::cpu_time(&pid.to_string())).sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        const GRACE: Duration = Duration::from_secs(5);
        // It ends by itself when its input does, unless something has gone wrong.
        drop(self.stdin.take());
        let began = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) && began.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
