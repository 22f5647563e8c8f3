//! A schedule that has at least seven times to deal with, and makes up for five, in a process that dies before and after each commit: each time has
//! one run or was counted, once, whenever that is.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod sleeper;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stepwell_core::ids::Digest;
use stepwell_core::json::Json;
use stepwell_engine::schedule::{Overlap, ScheduleSpec, Told, Why, told_of};
use stepwell_engine::store::{
    Action, Grouped, RunFilter, Schedule, SqliteLedger, SqliteOptions, SqliteStore, Store, Submission,
};
use stepwell_engine::{Engine, Reach, Settings};
use stepwell_store::{ClientReads as _, NewModule, Reads as _};
use stepwell_sweep::fate::{Doom, Fate};
use stepwell_sweep::life::client;
use stepwell_sweep::mortal::Mortal;
use stepwell_sweep::subject::{EAGER, HOST};

use sleeper::sleeper;

/// The first of January 2020, in ms since the Unix epoch: the first of at least seven times that have come.
const FIRST_MS: u64 = 1_577_836_800_000;
const MADE_UP_FOR: u32 = 5;
/// Long enough on any machine; none of it is waited for where all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// A schedule that fires at the beginning of each year, as a server leaves it that was ended in 2019.
fn left_alone(dir: &Path) {
    let store = SqliteStore::open(dir, SqliteOptions::default()).unwrap();
    let bytes = sleeper();
    let digest = Digest::of(&bytes);
    let module = NewModule { digest: digest.clone(), bytes, description: "{}".into(), added_at_ms: 1 };
    let spec = ScheduleSpec {
        cron: "0 0 1 1 *".into(),
        time_zone: "UTC".into(),
        input: Json::null(),
        overlap: Overlap::Allow,
        catch_up: MADE_UP_FOR,
        run_timeout_ms: None,
        tags: BTreeMap::new(),
    };
    let schedule = Schedule {
        name: "yearly".into(),
        version: 1,
        workflow: "sleeper".into(),
        next_ms: Some(FIRST_MS),
        paused: None,
        problem: None,
        spec: serde_json::to_string(&spec).unwrap(),
        told: serde_json::to_string(&Told::default()).unwrap(),
    };
    let actions = vec![
        Action::AddModule(module),
        Action::Activate { workflow: "sleeper".into(), digest, at_ms: 1, only_if_none: false },
        Action::PutSchedule { schedule, replaces: None },
    ];
    store.submit(Submission { actions, answer: None }).wait().unwrap();
}

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Whether it has dealt with all of them; else it died as its fate had it.
fn live(dir: &Path, fate: &Fate) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(async {
        let (ledger, reads) = SqliteLedger::open(dir, SqliteOptions::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(Grouped::over(Mortal::new(ledger, fate.clone()), reads, EAGER).unwrap());
        let engine = Engine::over(Settings::new(dir), store, HOST.clone(), client(), Reach::default());
        engine.recover().unwrap();
        engine.keep_schedules();
        let dealt_with = async {
            while !engine.store().read().due_schedules(now_ms()).unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = fate.death() => false,
            () = dealt_with => true,
            () = tokio::time::sleep(PATIENCE) => panic!("it is not done: {:?}", fate.trail()),
        }
    });
    // Its tasks go with it, and the database is closed.
    drop(runtime);
    done
}

fn check(dir: &Path, when: &str) {
    let reads = stepwell_store::read_only(dir).unwrap();
    let told = told_of(&reads.schedule("yearly").unwrap().unwrap()).unwrap();
    let runs = reads.runs(&RunFilter { limit: 1_000, ..RunFilter::default() }).unwrap().runs;
    let mut keys: Vec<_> = runs.into_iter().filter_map(|run| run.run_key).collect();
    keys.sort();
    let years = keys.iter().map(|key| key.strip_prefix("schedule:yearly:").unwrap()[..4].parse::<u32>().unwrap());
    let years: Vec<u32> = years.collect();
    assert_eq!(years.len() as u64, told.fired, "{when}: {keys:?} {told:?}");
    assert_eq!(years.len(), MADE_UP_FOR as usize, "{when}: {keys:?}");
    assert!(years.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{when}: {keys:?}");
    assert_eq!(told.missed, u64::from(years[0] - 2_020), "{when}: {keys:?} {told:?}");
    assert_eq!(told.passed.unwrap().why, Why::Missed, "{when}");
    assert!(!told.last.unwrap().existed, "{when}: a run was there that the schedule knew nothing of");
}

/// Lets the process die at each point. How often it did.
fn die_everywhere() -> u32 {
    let mut deaths = 0;
    for n in 1.. {
        let dir = tempfile::tempdir().unwrap();
        left_alone(dir.path());
        let fate = Fate::new(Doom::Nth(n));
        let survived = live(dir.path(), &fate);
        if !survived {
            deaths += 1;
            let once_more = Fate::new(Doom::Nth(2));
            let _ = live(dir.path(), &once_more);
            assert!(live(dir.path(), &Fate::new(Doom::Never)));
        }
        let when = fate.trail().last().map_or_else(String::new, ToString::to_string);
        check(dir.path(), &when);
        if survived {
            break;
        }
    }
    deaths
}

#[test]
fn each_time_has_one_run_or_is_counted_wherever_the_process_dies() {
    let deaths = die_everywhere();
    println!("died {deaths} times");
    // Before and after the commit of each firing at least.
    assert!(deaths >= 2 * MADE_UP_FOR, "{deaths}");
}

/// Mutation tests: each planted fault breaks a rule of schedules, and this must notice.
#[cfg(feature = "sweep")]
#[test]
fn every_planted_fault_of_schedules_is_caught() {
    use stepwell_sweep::plant::Planted;

    let survives = |planted: &Planted| {
        planted.plant();
        let caught = std::panic::catch_unwind(die_everywhere);
        Planted::nothing();
        caught.is_ok()
    };
    let survivors: Vec<Planted> = Planted::of_schedules().into_iter().filter(survives).collect();
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}
