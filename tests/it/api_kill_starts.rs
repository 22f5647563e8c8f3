//! SIGKILL of the server, again and again, while very many clients start runs: each key has started one run, all runs end, and what
//! their steps sent is what its class promises.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use stepwell_tests::{Answer, Api, Module, Project, Reply, Request, Server, Serving};

/// Clients that each have a start under way whenever the server dies.
const STARTERS: usize = 200;
/// A server answers at least one start, and at most so many, before it dies;
const ANSWERS: usize = 40;
/// or it dies beside at least one request of a step that nobody answers, and at least so many at times.
const HELD: usize = 12;
/// Who waits for so long has been forgotten.
const HANGS: Duration = Duration::from_secs(120);

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "pays.ts",
        r#"
import { workflow } from "stepwell";

const retry = { maxAttempts: 100, initialMs: 10, multiplier: 1 };

export const pays = workflow("pays", ({ input, step }: any) =>
  step.run("pay", async ({ http }: any) =>
    (await http.post(`${input.url}/${input.n}`, { json: input.n }).ensureOk()).text(), { effect: input.effect, retry }),
  { destinations: ["127.0.0.1:*"] });
"#,
    )
});

/// How often the server dies: `KILLS` says otherwise.
fn kills() -> usize {
    std::env::var("KILLS").map_or(20, |text| text.parse().expect("KILLS is a number"))
}

/// What the steps post to. It answers at once, or not before a server has died.
#[derive(Default)]
struct Answers {
    /// Whether it holds answers back, and how many.
    held: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Answers {
    fn answer(&self, request: &Request) -> Reply {
        let mut held = self.held.lock().expect("nobody panics with it");
        if held.0 {
            held.1 += 1;
            self.changed.notify_all();
            drop(self.changed.wait_while(held, |held| held.0).expect("nobody panics with it"));
        }
        Reply::Answer(200, request.path.clone())
    }

    fn hold(&self, hold: bool) {
        *self.held.lock().expect("nobody panics with it") = (hold, 0);
        self.changed.notify_all();
    }

    /// Waits until so many are held back.
    fn wait_for(&self, count: usize) {
        let held = self.held.lock().expect("nobody panics with it");
        let waited = self.changed.wait_timeout_while(held, HANGS, |held| held.1 < count);
        assert!(!waited.expect("nobody panics with it").1.timed_out(), "no steps are under way");
    }
}

/// The clients' side: who is asked, and what was answered.
struct Starts {
    /// Where the steps post to.
    url: String,
    next: AtomicUsize,
    over: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// None while it is being killed, or has been.
    server: Option<Api>,
    /// The run that each key was answered with.
    runs: BTreeMap<usize, String>,
    /// Requests that a death has cut off.
    cut_off: usize,
    /// Answers to those that came again, and had been carried out when the server died.
    replayed: usize,
    /// What should not have been answered.
    wrong: Vec<String>,
}

impl Starts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    /// Waits for what the others do.
    fn wait_while(&self, mut so: impl FnMut(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_timeout_while(self.lock(), HANGS, |state| so(state) && state.wrong.is_empty());
        let (state, late) = waited.expect("nobody panics with it");
        assert!(!late.timed_out(), "nothing goes on; {} keys are answered", state.runs.len());
        state
    }

    /// Who is asked from now on.
    fn serve(&self, api: Option<&Api>) {
        self.lock().server = api.cloned();
        self.changed.notify_all();
    }

    /// Starts runs, one after the other, each with a key of its own.
    fn starter(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            if !self.start(n) {
                return;
            }
        }
    }

    /// Asks until it is answered, whichever server it is that does. Whether it was answered as it should be.
    fn start(&self, n: usize) -> bool {
        let mut again = false;
        loop {
            let api = self.wait_while(|state| state.server.is_none()).server.clone();
            let Some(api) = api else { return false };
            let answer = self.ask(&api, n);
            let mut state = self.lock();
            match answer {
                Ok(answer) if answer.status == 201 => {
                    state.replayed += usize::from(again && replayed(&answer));
                    let first = state.runs.insert(n, answer.run());
                    assert_eq!(first, None, "each key has one starter");
                    self.changed.notify_all();
                    return true;
                }
                Ok(answer) if answer.body["code"] == "idempotency_in_progress" => {}
                Ok(answer) => {
                    state.wrong.push(format!("key {n}: {answer:#?}"));
                    self.changed.notify_all();
                    return false;
                }
                Err(_) => {
                    state.cut_off += 1;
                    again = true;
                }
            }
        }
    }

    fn ask(&self, api: &Api, n: usize) -> std::io::Result<Answer> {
        let input = json!({ "url": self.url, "n": n, "effect": effect(n) });
        let body = json!({ "input": input, "tags": { "n": n.to_string() } });
        api.keyed(&format!("key-{n}")).try_post("/v1/workflows/pays/runs", &body)
    }
}

/// The class of this run's step.
fn effect(n: usize) -> &'static str {
    ["repeatable", "keyed", "once"][n % 3]
}

fn replayed(answer: &Answer) -> bool {
    answer.header("idempotent-replayed").is_some()
}

#[test]
fn each_of_very_many_keys_starts_one_run_and_all_end() {
    let answers = Arc::<Answers>::default();
    let answering = answers.clone();
    let other = Server::start(move |request| answering.answer(request));
    let project = Project::new();
    let mut server: Serving = project.serve_with(&MODULE);
    let starts = Starts {
        url: other.url(),
        next: AtomicUsize::new(0),
        over: AtomicBool::new(false),
        state: Mutex::default(),
        changed: Condvar::new(),
    };
    let seed: u64 = std::env::var("SEED").map_or(std::process::id().into(), |text| text.parse().expect("a number"));
    eprintln!("SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let server = std::thread::scope(|scope| {
        starts.serve(Some(&server));
        for _ in 0..STARTERS {
            scope.spawn(|| starts.starter());
        }
        for _ in 0..kills() {
            let enough = starts.lock().runs.len() + random.random_range(1..=ANSWERS);
            let held = random.random_bool(0.5).then(|| random.random_range(1..=HELD));
            answers.hold(held.is_some());
            drop(starts.wait_while(|state| state.runs.len() < enough));
            answers.wait_for(held.unwrap_or(0));
            starts.serve(None);
            server.kill();
            answers.hold(false);
            server = project.serve(&[]);
            starts.serve(Some(&server));
        }
        starts.over.store(true, Ordering::Relaxed);
        server
    });
    let state = starts.lock();
    assert!(state.wrong.is_empty(), "{:#?}", state.wrong);
    let keys = starts.next.load(Ordering::Relaxed);
    eprintln!("{keys} keys, {} requests cut off, {} of them carried out", state.cut_off, state.replayed);
    assert_eq!(state.runs.len(), keys, "every key is answered");
    // In the midst of it: some were carried out and some were not.
    assert!(state.replayed > 0 && state.cut_off > state.replayed);

    let resolved = ends(&server, &state.runs);
    one_run_for_each(&server, &state.runs);
    for (n, run) in &state.runs {
        let again = starts.ask(&server, *n).expect("the server lives").expect(201);
        assert!(replayed(&again) && again.run() == *run, "key {n}: {again:#?}");
    }
    sent(&other, &state.runs, &resolved);
}

/// Waits for the end of each run. A step of which is unknown what became of it is said to have succeeded; the runs of those.
fn ends(server: &Api, runs: &BTreeMap<usize, String>) -> BTreeSet<String> {
    let mut resolved = BTreeSet::new();
    for (n, run) in runs {
        let ended = loop {
            let answer = server.get(&format!("/v1/runs/{run}/result?wait=1s"));
            if answer.status == 200 {
                break answer.body;
            }
            resolve(server, &mut resolved);
        };
        let result = if resolved.contains(run) { json!("found") } else { json!(format!("/{n}")) };
        assert_eq!((&ended["status"], &ended["result"]), (&json!("succeeded"), &result), "{} {ended:#?}", effect(*n));
    }
    resolved
}

/// Says of each step that is unknown that it succeeded.
fn resolve(server: &Api, resolved: &mut BTreeSet<String>) {
    let found = json!({ "outcome": "succeeded", "result": "found", "evidence": "on the record" });
    for step in server.get("/v1/steps?open=true&limit=1000").expect(200).body["steps"].as_array().expect("a list") {
        let run = step["run"].as_str().expect("a step has its run").to_owned();
        drop(server.post(&format!("/v1/runs/{run}/steps/pay/resolve"), &found).expect(200));
        resolved.insert(run);
    }
}

/// All runs that there are, page by page: one of each key, and it is the one that was answered.
fn one_run_for_each(server: &Api, answered: &BTreeMap<usize, String>) {
    let (mut there, mut query) = (BTreeMap::<usize, Vec<String>>::new(), "limit=1000".to_owned());
    loop {
        let page = server.get(&format!("/v1/runs?{query}")).expect(200).body;
        for run in page["runs"].as_array().expect("a list of runs") {
            let n = run["tags"]["n"].as_str().and_then(|n| n.parse().ok()).expect("each has its key's number");
            there.entry(n).or_default().push(run["id"].as_str().expect("a run has an id").to_owned());
        }
        let Some(cursor) = page["cursor"].as_str() else { break };
        query = format!("limit=1000&cursor={cursor}");
    }
    let one_each: BTreeMap<usize, Vec<String>> = answered.iter().map(|(n, run)| (*n, vec![run.clone()])).collect();
    let wrong: Vec<_> = there.iter().filter(|(n, runs)| one_each.get(n) != Some(runs)).collect();
    assert!(
        wrong.is_empty() && there.len() == one_each.len(),
        "{} of {} keys, {wrong:#?}",
        there.len(),
        one_each.len()
    );
}

/// What came to the other side, by what each class promises.
fn sent(other: &Server, runs: &BTreeMap<usize, String>, resolved: &BTreeSet<String>) {
    let mut came = BTreeMap::<String, Vec<String>>::new();
    for request in other.requests() {
        let key = request.key().expect("each has a key").to_owned();
        came.entry(request.path).or_default().push(key);
    }
    let mut again = BTreeMap::<&str, usize>::new();
    for (n, run) in runs {
        let (keys, class) = (came.remove(&format!("/{n}")).unwrap_or_default(), effect(*n));
        assert!(keys.iter().all(|key| key.starts_with(&format!("{run}:pay:"))), "{run}: {keys:?}");
        let right = match class {
            "repeatable" => !keys.is_empty(),
            // As often as it takes, always under one key.
            "keyed" => keys.first().is_some_and(|first| keys.iter().all(|key| key == first)),
            // Where it was resolved nobody knew: that is why a person was asked.
            _ => keys.len() == 1 || (keys.is_empty() && resolved.contains(run)),
        };
        assert!(right, "{class} {n}: {keys:?}");
        *again.entry(class).or_default() += usize::from(keys.len() > 1);
    }
    assert!(came.is_empty(), "what no run has sent: {came:?}");
    eprintln!("sent more than once: {again:?}; once and unknown: {}", resolved.len());
    assert!(again["keyed"] > 0 && again["once"] == 0 && !resolved.is_empty(), "some deaths came beside requests");
}
