//! Asking the same of many runs: found by a filter, counted, confirmed, then asked one by one, each under a key of its own, so that
//! the command can be repeated whenever it breaks off.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use futures_util::stream::{self, StreamExt as _};
use http::StatusCode;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::{Value, json};
use stepwell_core::journal::print::printable;
use stepwell_core::policy::idempotency;

use super::asks::{Ask, AskArgs, path};
use super::client::{Client, Failure, Sent, segment};
use crate::cli::exit::Exit;
use crate::cli::stdout::Stdout;

/// How many runs are asked at a time.
const AT_ONCE: usize = 8;
/// The longest key of a command: a run's name and what is asked of it come behind it.
const MAX_KEY_CHARS: usize = 200;

/// A run that the filter finds.
#[derive(Debug, Deserialize)]
struct Found {
    id: String,
    workflow: String,
    status: String,
}

#[derive(Debug, Deserialize)]
struct Page {
    runs: Vec<Found>,
    cursor: Option<String>,
    unreadable: u64,
}

/// Asks it of every run that the filter finds.
pub(super) async fn ask(ask: Ask, args: &AskArgs, body: &Value) -> Result<(), ExitCode> {
    let key = args.key.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let usable = idempotency::header_key(&key).is_ok_and(|key| key.chars().count() <= MAX_KEY_CHARS);
    if !usable {
        return Err(Exit::Usage.with(format!("--key has 1 to {MAX_KEY_CHARS} printable characters")));
    }
    let client = Client::new(&args.server)?;
    let found = find(&client, ask, args).await?;
    let mut stdout = Stdout::default();
    if args.dry_run {
        list(&mut stdout, &found, args.json);
    }
    say!("{}", count(&found));
    if args.dry_run || found.is_empty() {
        return Ok(());
    }
    if !args.yes {
        confirm(ask, found.len())?;
    }
    let asked = Asked { client: &client, ask, body, key: &key, json: args.json };
    asked.all(found, &mut stdout).await
}

/// The runs, page by page; those of each status by themselves, since runs change theirs meanwhile and could be missed otherwise.
async fn find(client: &Client, ask: Ask, args: &AskArgs) -> Result<Vec<Found>, ExitCode> {
    let statuses = if args.status.is_empty() { ask.statuses() } else { &args.status };
    if let Some(over) = statuses.iter().find(|status| status.is_finished()) {
        return Err(
            Exit::Usage.with(format!("--status {over}: such runs have ended, and nothing can be asked of them"))
        );
    }
    let mut filter = String::new();
    if let Some(workflow) = &args.workflow {
        filter += &format!("&workflow={}", segment(workflow));
    }
    for tag in &args.tags {
        filter += &format!("&tag={}", segment(tag));
    }
    // Open runs are found in one go: between two lists a run may leave the one and enter the other.
    let lists: Vec<String> = if args.status.is_empty() && ask != Ask::Resume {
        vec!["open=true".to_owned()]
    } else {
        statuses.iter().map(|status| format!("status={status}")).collect()
    };
    let mut found = BTreeMap::new();
    for list in lists {
        let mut cursor = String::new();
        loop {
            let page = client.get(&format!("/v1/runs?{list}&limit=1000{filter}{cursor}")).await?;
            let page: Page = serde_json::from_value(page)
                .map_err(|error| Exit::Failed.with(format!("the server's answer is not understood: {error}")))?;
            if page.unreadable > 0 {
                say!("{} runs cannot be read, and are left out", page.unreadable);
            }
            let wanted = |run: &Found| statuses.iter().any(|status| status.as_str() == run.status);
            found.extend(page.runs.into_iter().filter(wanted).map(|run| (run.id.clone(), run)));
            let Some(next) = page.cursor else { break };
            cursor = format!("&cursor={}", segment(&next));
        }
    }
    Ok(found.into_values().collect())
}

fn list(stdout: &mut Stdout, found: &[Found], as_json: bool) {
    for Found { id, workflow, status } in found {
        if as_json {
            stdout.line(json!({ "run": id, "workflow": workflow, "status": status }));
        } else {
            stdout.line(printable(&format!("{id}  {status:<10} {workflow}")));
        }
    }
}

/// How many they are, by status.
fn count(found: &[Found]) -> String {
    let mut by_status = BTreeMap::<&str, usize>::new();
    for run in found {
        *by_status.entry(&run.status).or_default() += 1;
    }
    let parts: Vec<String> = by_status.iter().map(|(status, n)| format!("{n} {status}")).collect();
    let colon = if parts.is_empty() { "" } else { ": " };
    format!("{}{colon}{}", runs(found.len()), parts.join(", "))
}

fn runs(n: usize) -> String {
    if n == 1 { "1 run".to_owned() } else { format!("{n} runs") }
}

/// Asks back. Where nobody is there to answer, nothing is done.
fn confirm(ask: Ask, n: usize) -> Result<(), ExitCode> {
    let question = format!("{} {}?", ask.name(), runs(n));
    if !std::io::stdin().is_terminal() {
        return Err(Exit::Usage.with(format!("{question} Nobody is there to be asked: say --yes")));
    }
    let _ = write!(anstream::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    // A terminal that is gone has not said yes.
    let _ = std::io::stdin().lock().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(Exit::Usage.with("nothing was done")) }
}

/// What became of one run's question.
enum Outcome {
    Granted,
    Already,
    /// It has ended meanwhile, or its end is decided.
    Over,
    Failed(Failure),
}

struct Asked<'a> {
    client: &'a Client,
    ask: Ask,
    body: &'a Value,
    key: &'a str,
    json: bool,
}

impl Asked<'_> {
    async fn all(&self, found: Vec<Found>, stdout: &mut Stdout) -> Result<(), ExitCode> {
        let bar = bar(found.len());
        let (total, mut tally, mut asked) = (found.len(), Tally::default(), 0);
        let mut outcomes = stream::iter(found).map(|run| self.one(run.id)).buffer_unordered(AT_ONCE);
        while let Some((run, answer, outcome)) = outcomes.next().await {
            asked += 1;
            if self.json {
                stdout.line(answer);
            }
            if let Outcome::Failed(failure) = &outcome {
                bar.suspend(|| say!("{run}: {}", printable(&failure.said)));
            }
            bar.inc(1);
            // What holds for one token and one server would be said of every run.
            let hopeless = matches!(&outcome, Outcome::Failed(failure)
                if matches!(failure.status, None | Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)));
            tally.add(&outcome);
            if hopeless {
                break;
            }
        }
        drop(outcomes);
        bar.finish_and_clear();
        tally.left = total - asked;
        self.conclude(&tally)
    }

    async fn one(&self, run: String) -> (String, Value, Outcome) {
        let sent = Sent::json(self.body, Some(format!("{}:{}:{run}", self.key, self.ask.name())));
        match self.client.try_post(&path(self.ask, &run), &sent).await {
            Ok(answer) => {
                let already = answer["when"] == "already";
                (run, answer, if already { Outcome::Already } else { Outcome::Granted })
            }
            Err(failure) => {
                let answer = json!({ "run": run, "problem": { "code": failure.code, "detail": failure.said } });
                let over = matches!(failure.code.as_str(), "run_finished" | "run_ending");
                (run, answer, if over { Outcome::Over } else { Outcome::Failed(failure) })
            }
        }
    }

    fn conclude(&self, tally: &Tally) -> Result<(), ExitCode> {
        let what = self.ask.name();
        let mut said = format!("{what}: {} granted", runs(tally.granted));
        for (n, words) in
            [(tally.already, "were so already"), (tally.over, "had ended meanwhile"), (tally.failed, "failed")]
        {
            if n > 0 {
                said += &format!(", {n} {words}");
            }
        }
        if tally.left > 0 {
            said += &format!(", {} were not asked any more", tally.left);
        }
        match tally.exit {
            None => {
                say!("{said}");
                Ok(())
            }
            Some(exit) => Err(exit.with(format!("{said}. The same again is safe, with --key {} or without", self.key))),
        }
    }
}

/// What became of all of them.
#[derive(Default)]
struct Tally {
    granted: usize,
    already: usize,
    over: usize,
    failed: usize,
    left: usize,
    /// The worst failure's.
    exit: Option<Exit>,
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Granted => self.granted += 1,
            Outcome::Already => self.already += 1,
            Outcome::Over => self.over += 1,
            Outcome::Failed(failure) => {
                self.failed += 1;
                if self.exit != Some(Exit::Failed) {
                    self.exit = Some(failure.exit);
                }
            }
        }
    }
}

fn bar(n: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(n as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar
}
