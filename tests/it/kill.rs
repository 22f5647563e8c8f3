//! SIGKILL at any moment of the checkout: the right result, and nothing that the shop could tell from a run without it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use shop::{Entry, Verdict};
use stepwell_tests::{Module, Project, Running, Shop, Stepwell, each_in_parallel};

/// The example, with waits that a test can bear.
static CHECKOUT: LazyLock<Module> = LazyLock::new(|| {
    let file = Stepwell::workspace().join("examples/checkout/checkout.ts");
    let mut source = std::fs::read_to_string(file).expect("the example is there");
    for (text, quick) in [
        (r#"sleep("2 seconds")"#, r#"sleep("50 ms")"#),
        ("{ timeoutMs: 10_000,", "{ timeoutMs: 10_000, retry: { initialMs: 20 },"),
    ] {
        assert!(source.contains(text), "the example has {text}");
        source = source.replace(text, quick);
    }
    Module::build("checkout.ts", &source)
});

/// The first charge is refused, the first label is told to come back: six requests where nobody is killed.
const REFUSALS: [&str; 2] = ["POST /charges#1=status:503", "POST /labels#1=status:429,retry-after:0"];

fn order(shop: &Shop) -> Value {
    json!({
        "orderId": "o1", "shop": shop.url(), "items": [{ "sku": "lamp", "quantity": 2 }], "amountCents": 12900, "currency": "EUR",
        "customer": { "name": "Noor Visser", "email": "noor@example.com", "address": "Kade 7, Utrecht" },
    })
}

fn start(project: &Project, shop: &Shop) -> Running {
    project.run(&CHECKOUT, "checkout", &order(shop))
}

/// Goes on with the project's run; from the beginning where the process died before there was one.
fn go_on(project: &Project, shop: &Shop) -> Running {
    if project.runs(&[]).is_empty() { start(project, shop) } else { project.resume(&project.only_run()) }
}

/// Goes on with the run until it ends. Then the result is right, and by the record of requests (not only of what it stored)
/// nothing was done or could have been done twice.
fn assert_ends_right(project: &Project, shop: &Shop) {
    // A process that died after the run's end leaves nothing to go on with.
    if project.runs(&["--status", "succeeded"]).is_empty() {
        drop(go_on(project, shop).wait().expect_code(0));
    }
    let run = project.show(&project.only_run());
    let result = json!({
        "orderId": "o1", "reservation": "res_o1", "charge": "ch_o1", "label": "lbl_o1", "email": "em_o1"
    });
    assert_eq!((&run["status"], &run["outcome"]), (&json!("succeeded"), &result));
    let record = shop.record();
    assert_eq!(shop.verdict(), Verdict::default(), "{record:#?}");
    for path in ["/reservations", "/charges", "/labels", "/emails"] {
        let of_path: Vec<&Entry> = record.iter().filter(|entry| entry.path == path).collect();
        assert_eq!(of_path.iter().filter(|entry| entry.stored).count(), 1, "{path}: {record:#?}");
        // Whatever was asked again was asked in the same words.
        let bodies: BTreeSet<_> = of_path.iter().filter_map(|entry| entry.body_digest.as_ref()).collect();
        assert_eq!(bodies.len(), 1, "{path}: {record:#?}");
    }
}

#[test]
fn at_every_point_of_every_request() {
    let requests = ["/reservations#1", "/charges#1", "/charges#2", "/labels#1", "/labels#2", "/emails#1"];
    // With `go-on` the shop does not notice that its client died, and does what it was asked.
    let points = [
        "before-read",
        "before-read,go-on",
        "after-read",
        "after-read,go-on",
        "after-store",
        "mid-answer",
        "after-answer",
    ];
    let cases: Vec<String> = requests
        .iter()
        .flat_map(|request| points.iter().map(move |point| format!("POST {request}=kill:{point}")))
        .collect();
    each_in_parallel(&cases, |fault| {
        let project = Project::new();
        let shop = Shop::start(&[fault.as_str(), REFUSALS[0], REFUSALS[1]], Some(&project.pid_file()));
        let doomed = start(&project, &shop);
        let pid = doomed.pid();
        let died = doomed.wait();
        assert_eq!(died.signal, Some(9), "{died:#?}");
        let killed: Vec<_> = shop.record().into_iter().filter(|entry| entry.killed == Some(pid)).collect();
        assert_eq!(killed.len(), 1, "{killed:#?}");
        assert_ends_right(&project, &shop);
    });
}

/// When a process is to die.
#[derive(Debug)]
enum Moment {
    /// After so many events that it showed.
    Event(usize),
    /// So many ms after its start.
    Ms(u64),
}

#[test]
fn at_random_moments() {
    let seed: u64 = match std::env::var("SEED") {
        Ok(text) => text.parse().expect("SEED is a number"),
        Err(_) => std::process::id().into(),
    };
    eprintln!("SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    // Two deaths each, the second while it goes on.
    let moments: Vec<[Moment; 2]> = (0..30)
        .map(|_| {
            std::array::from_fn(|_| match random.random_bool(0.6) {
                true => Moment::Event(random.random_range(1..40)),
                false => Moment::Ms(random.random_range(0..600)),
            })
        })
        .collect();
    each_in_parallel(&moments, |[first, second]| {
        let project = Project::new();
        let shop = Shop::start(&REFUSALS, None);
        die(start(&project, &shop), first);
        die(go_on(&project, &shop), second);
        assert_ends_right(&project, &shop);
    });
}

/// Kills the process at the moment, if it has not ended before.
fn die(mut process: Running, moment: &Moment) {
    match *moment {
        Moment::Event(count) => {
            for _ in 0..count {
                if process.next_event().is_none() {
                    break;
                }
            }
        }
        Moment::Ms(ms) => std::thread::sleep(std::time::Duration::from_millis(ms)),
    }
    process.kill();
}
