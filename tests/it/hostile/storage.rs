//! A disk that is full and a database that may not be written: said clearly, nothing is lost, and it works again afterwards.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stepwell_core::error::Code;
use stepwell_core::json::Json;
use stepwell_engine::store::Status;
use stepwell_engine::{Engine, RunRef, Settings, StartRun};
use stepwell_tests::{Finished, Project, Running, Stepwell};

use super::guest::made;
use super::house::{End, follow, kind, open};

/// Twenty steps of half a megabyte each.
const LARGE: &str = r#"
(func $run (result i32)
  (local $n i32)
  (call $room (i32.const 700000))
  (global.set $heap (i32.const 700000))
  (memory.fill (i32.const 65536) (i32.const 0x78) (i32.const 500000))
  (i32.store8 (i32.const 65536) (i32.const 0x22))
  (i32.store8 (i32.const 565535) (i32.const 0x22))
  (loop $again
    (drop (call $begin (i32.const 2072) (i32.const 1)))
    (loop $attempts
      (if (i32.eqz (call $next))
        (then
          (drop (call $finish-with (i32.const 65536) (i32.const 500000)))
          (br $attempts))))
    (global.set $heap (i32.const 700000))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $n) (i32.const 20))))
  (call $ok-null))
"#;

fn journal(engine: &Engine, run: &RunRef) -> Vec<(u64, Vec<u8>)> {
    engine.store().read().journal(run.key).expect("the journal can be read")
}

fn kinds(journal: &[(u64, Vec<u8>)]) -> Vec<String> {
    let record = |(seq, bytes): &(u64, Vec<u8>)| {
        let entry = stepwell_core::journal::codec::decode(*seq, bytes).expect("an entry can be read");
        kind(&serde_json::to_value(entry.record).expect("an entry is JSON"))
    };
    journal.iter().map(record).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_fills_the_disk_goes_on_when_there_is_room() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let small = open(&dir, |settings| settings.max_database_bytes = Some(4 << 20));
    let digest = small.add_module(made(LARGE)).await.expect("it is a module").digest;
    let start = StartRun {
        digest,
        workflow: None,
        input: Json::null(),
        run_key: None,
        run_timeout_ms: None,
        events: Vec::new(),
        tags: Vec::new(),
        delay_ms: 0,
        retry_of: None,
        concurrency_key: None,
        priority: 0,
    };
    let run = small.start(start.clone()).await.expect("there is room for its beginning");
    let mut happenings = small.watch(run.key);
    small.go(&run);
    match follow(&mut happenings).await {
        End::Paused(error) => assert!(error.is(Code::Internal) && error.message.contains("full"), "{error}"),
        other => panic!("the disk was to be full: {other:?}"),
    }
    // Another one is refused with the same reason, or begins and stops with it; the process is alive either way.
    match small.start(start).await {
        Ok(another) => {
            let mut happenings = small.watch(another.key);
            small.go(&another);
            assert!(matches!(follow(&mut happenings).await, End::Paused(_)));
        }
        Err(error) => assert!(error.is(Code::Internal) && error.message.contains("full"), "{error}"),
    }
    // Until then it is tried again and again.
    small.stop().await;
    let before = journal(&small, &run);
    assert!(before.len() > 4 && before.len() < 60, "{} entries", before.len());
    drop(small);

    let large = reopened(&dir, |_| {}).await;
    assert_eq!(journal(&large, &run), before, "nothing is lost");
    let mut happenings = large.watch(run.key);
    large.resume(&run, "a test", None).await.expect("it can go on");
    assert!(matches!(follow(&mut happenings).await, End::Succeeded(_)));
    let after = journal(&large, &run);
    assert_eq!(after[..before.len()], before[..]);
    let kinds = kinds(&after);
    assert_eq!(kinds.iter().filter(|kind| *kind == "step_begun").count(), 20);
    assert_eq!(kinds.iter().filter(|kind| *kind == "delivered").count(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_could_not_be_written_goes_on_by_itself_once_it_can() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let engine = open(&dir, |_| {});
    let digest = engine.add_module(made(LARGE)).await.expect("it is a module").digest;
    let run = engine.start(StartRun::new(digest, None, Json::null())).await.expect("it starts");
    let other = rusqlite::Connection::open(dir.path().join("stepwell.db")).expect("it is a database");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
    let mut happenings = engine.watch(run.key);
    engine.go(&run);
    match follow(&mut happenings).await {
        End::Paused(error) => assert!(error.is(Code::Internal) && error.message.contains("locked"), "{error}"),
        end => panic!("the database was to be locked: {end:?}"),
    }
    other.execute_batch("ROLLBACK").expect("what was begun can be left");
    assert!(matches!(follow(&mut happenings).await, End::Succeeded(_)));
    let kinds = kinds(&journal(&engine, &run));
    assert_eq!(kinds.iter().filter(|kind| *kind == "delivered").count(), 20);
    engine.stop().await;
    // Nothing begins in an engine that was stopped; what is on record is done by the next one.
    engine.go(&run);
    assert_eq!(engine.live_runs(), 0);
}

/// As after an upgrade on a machine that is busy: its compiled form is gone, and there is no time to make it anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_module_cannot_be_compiled_now_is_not_set_aside() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let engine = open(&dir, |_| {});
    let digest = engine.add_module(made(LARGE)).await.expect("it is a module").digest;
    let run = engine.start(StartRun::new(digest, None, Json::null())).await.expect("it starts");
    engine.stop().await;
    drop(engine);
    std::fs::remove_dir_all(dir.path().join("compiled")).expect("it may be deleted");

    let busy = reopened(&dir, |settings| settings.compile_limit = std::time::Duration::ZERO).await;
    let mut happenings = busy.watch(run.key);
    busy.recover().expect("the runs can be read");
    match follow(&mut happenings).await {
        End::Paused(error) => assert!(error.message.contains("the machine is too busy"), "{error}"),
        end => panic!("the module was not to be there: {end:?}"),
    }
    drop(busy.changes(run.key).await);
    let row = busy.run(&run.id).expect("it can be read").expect("it is there");
    assert_eq!(row.status, Status::Queued);
    assert!(row.detail.as_ref().is_some_and(|detail| detail.contains("to compile")), "{row:?}");
    busy.stop().await;
    drop(busy);

    let engine = reopened(&dir, |_| {}).await;
    let mut happenings = engine.watch(run.key);
    engine.recover().expect("the runs can be read");
    assert!(matches!(follow(&mut happenings).await, End::Succeeded(_)));
}

/// The directory is free once the last task of the engine before has ended.
async fn reopened(dir: &tempfile::TempDir, adjust: impl FnOnce(&mut Settings)) -> Engine {
    let free = || {
        std::fs::File::options()
            .write(true)
            .open(dir.path().join("stepwell.lock"))
            .is_ok_and(|file| file.try_lock().is_ok())
    };
    while !free() {
        tokio::task::yield_now().await;
    }
    open(dir, adjust)
}

/// Sleeps for a minute, unless `a` comes.
const WAITS: &str = r#"
(func $run (result i32)
  (call $wait-event (i32.const 2072) (i32.const 1) (i32.const 0) (i64.const 0) (i32.const 256))
  (drop (call $next))
  (call $ok-value))
"#;

/// `stepwell` as somebody who may read the data directory and not write it. Whom no permission binds becomes nobody first.
fn reading(project: &Project, args: &[&str]) -> Finished {
    let program = project.path().join("stepwell");
    if !program.exists() && std::fs::hard_link(Stepwell::path(), &program).is_err() {
        std::fs::copy(Stepwell::path(), &program).expect("the program can be copied");
    }
    let mut command = Command::new(&program);
    command.args(args).current_dir(project.path()).env("STEPWELL_DATA_DIR", project.data_dir());
    command.stdin(std::process::Stdio::null());
    if is_root(project.path()) {
        command.uid(65_534).gid(65_534);
    }
    Running::spawn(command).wait()
}

fn is_root(own: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(own).expect("the directory is there").uid() == 0
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// Sets the permissions of a directory, and of what is in it.
fn set_modes(directory: &Path, of_directory: u32, of_files: u32) {
    set_mode(directory, 0o755);
    for file in std::fs::read_dir(directory).expect("it can be listed") {
        let path = file.expect("it can be listed").path();
        if path.is_dir() { set_modes(&path, of_directory, of_files) } else { set_mode(&path, of_files) }
    }
    set_mode(directory, of_directory);
}

#[test]
fn a_database_that_may_not_be_written_is_said_and_works_again_afterwards() {
    let project = Project::new();
    std::fs::write(project.path().join("waits.wasm"), made(WAITS)).expect("a file can be written");
    let mut running = project.spawn(&["run", "waits.wasm", "--json"]);
    crate::journals::until_waiting(&mut running);
    running.signal("INT");
    let _ = running.wait().expect_code(130);
    let run = project.only_run();
    let before: Vec<Value> = project.journal(&run);

    set_mode(project.path(), 0o755);
    set_modes(&project.data_dir(), 0o555, 0o444);
    for args in [&["run", "--resume", &run][..], &["run", "waits.wasm"]] {
        let end = reading(&project, args).expect_code(6);
        assert!(end.stderr.contains("error:") && end.stderr.contains("data"), "{end:#?}");
        let said = ["read-only", "readonly", "ermission denied"];
        assert!(said.iter().any(|text| end.stderr.contains(text)), "{end:#?}");
    }
    set_modes(&project.data_dir(), 0o755, 0o644);

    assert_eq!(project.journal(&run), before, "nothing was written, and nothing is lost");
    let end = project.spawn(&["run", "--resume", &run, "--json", "--event", "a=7"]).wait().expect_code(0);
    assert_eq!(*end.result(), 7);
}
