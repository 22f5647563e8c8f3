//! What comes from outside at its limits and beyond: modules, inputs, events; and the program's exit codes.

use stepwell_core::error::Code;
use stepwell_core::journal::codec;
use stepwell_core::json::Json;
use stepwell_core::limits::{MAX_MODULE_BYTES, MAX_NAME_BYTES, MAX_VALUE_BYTES};
use stepwell_engine::StartRun;
use stepwell_tests::{Finished, Project};

use super::guest::{Budget, Guest, guests, made};
use super::house::{End, House};

/// Waits for the event `a` and returns what it carries.
const WAITS: &str = r#"
(func $run (result i32)
  (call $wait-event (i32.const 2072) (i32.const 1) (i32.const 0) (i64.const 0) (i32.const 256))
  (drop (call $next))
  (call $ok-value))
"#;

/// A step whose body takes a tenth of a second: meanwhile its instance cannot be given up.
const LINGERS: &str = r#"
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (call $delay (i32.const 0) (i32.const 1) (i64.const 100) (i32.const 256))
  (drop (call $next))
  (drop (call $finish-of (i32.const 0) (i32.const 1) (i32.const 2064) (i32.const 1)))
  (drop (call $next))
  (call $ok-null))
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_wait_for_memory_and_come_to_life_one_after_another() {
    let house = House::with(|settings| settings.total_memory_bytes = 1).await;
    let module = house.engine.add_module(made(LINGERS)).await.expect("it is a module").digest;
    let mut runs = Vec::new();
    for _ in 0..4 {
        let run = house.begin(&module).await;
        runs.push((house.engine.watch(run.key), run));
    }
    let mut lives = Vec::new();
    for (mut happenings, run) in runs {
        let end = super::house::follow(&mut happenings).await;
        assert!(matches!(end, End::Succeeded(_)), "{end:?}");
        let journal = house.engine.store().read().journal(run.key).expect("the journal can be read");
        let at_ms = |(seq, bytes): &(u64, Vec<u8>)| codec::decode(*seq, bytes).expect("an entry can be read").at_ms;
        // From the first thing that its code has done to its end.
        lives.push((at_ms(&journal[1]), at_ms(&journal[journal.len() - 1])));
    }
    lives.sort_unstable();
    assert!(lives.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{lives:?}");
}

/// A module of so many workflows, named `0000` and so on, each of which returns null.
fn of_workflows(count: u32) -> Vec<u8> {
    made(&format!(
        r#"
(func $describe-otherwise (result i32)
  (local $n i32) (local $at i32) (local $name i32)
  (call $room (i32.const 262144))
  (loop $again
    (local.set $at (i32.add (i32.const 65536) (i32.mul (local.get $n) (i32.const 144))))
    (local.set $name (i32.add (i32.const 16384) (i32.mul (local.get $n) (i32.const 4))))
    (i32.store (local.get $at) (local.get $name))
    (i32.store offset=4 (local.get $at) (i32.const 4))
    (i32.store8 (local.get $name) (i32.add (i32.const 48) (i32.div_u (local.get $n) (i32.const 1000))))
    (i32.store8 offset=1 (local.get $name)
      (i32.add (i32.const 48) (i32.rem_u (i32.div_u (local.get $n) (i32.const 100)) (i32.const 10))))
    (i32.store8 offset=2 (local.get $name)
      (i32.add (i32.const 48) (i32.rem_u (i32.div_u (local.get $n) (i32.const 10)) (i32.const 10))))
    (i32.store8 offset=3 (local.get $name) (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $n) (i32.const {count}))))
  (i32.store (i32.const 128) (i32.const 65536))
  (i32.store (i32.const 132) (i32.const {count}))
  (i32.const 128))
(func $run (result i32) (call $ok-null))
"#
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_has_a_thousand_workflows_at_most() {
    let house = House::new(Budget::Default).await;
    let module = house.engine.add_module(of_workflows(1_000)).await.expect("a thousand are taken");
    assert_eq!(module.workflows.len(), 1_000);
    for name in ["0000", "0999"] {
        let start = StartRun::new(module.digest.clone(), Some(name.to_owned()), Json::null());
        let run = house.engine.start(start).await.expect("each of them can be started");
        let mut happenings = house.engine.watch(run.key);
        house.engine.go(&run);
        let end = super::house::follow(&mut happenings).await;
        assert!(matches!(end, End::Succeeded(_)), "{name}: {end:?}");
    }
    let error = house.engine.add_module(of_workflows(1_001)).await.expect_err("one more is not");
    assert!(error.is(Code::InvalidModule) && error.message.contains("it may have 1000"), "{error}");
    let start = StartRun::new(module.digest, Some("1000".to_owned()), Json::null());
    assert!(house.engine.start(start).await.is_err_and(|error| error.is(Code::UnknownWorkflow)));
}

/// A text whose JSON has so many bytes.
fn text_of(bytes: usize) -> Json {
    Json::parse(&format!("\"{}\"", "x".repeat(bytes - 2))).expect("it is JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_and_events_have_2_mib_at_most() {
    let house = House::new(Budget::Default).await;
    let module = house.engine.add_module(made(WAITS)).await.expect("it is a module").digest;
    let (most, more) = (text_of(MAX_VALUE_BYTES), text_of(MAX_VALUE_BYTES + 1));
    let event = |payload: &Json| vec![("a".to_owned(), payload.clone())];
    let seen = house.run_with(&module, most.clone(), event(&most)).await;
    assert!(matches!(&seen.end, End::Succeeded(value) if *value == most), "{}", seen.run.id);

    let start = |input: &Json, events| StartRun {
        digest: module.clone(),
        workflow: None,
        input: input.clone(),
        run_key: None,
        run_timeout_ms: None,
        events,
        tags: Vec::new(),
        delay_ms: 0,
        retry_of: None,
        concurrency_key: None,
        priority: 0,
    };
    for refused in [start(&more, Vec::new()), start(&Json::null(), event(&more))] {
        let error = house.engine.start(refused).await.expect_err("it is too large");
        assert!(error.is(Code::ResultTooLarge), "{error}");
    }
    let waiting = house.run(&module).await;
    assert!(matches!(waiting.end, End::Waiting), "{waiting:?}");
    let error = house.engine.send_event(waiting.run.key, "a", &more, None).await.expect_err("it is too large");
    assert!(error.is(Code::ResultTooLarge), "{error}");

    // The run that waits has not been touched, and takes what may be sent.
    let mut happenings = house.engine.watch(waiting.run.key);
    house.engine.send_event(waiting.run.key, "a", &most, None).await.expect("it is taken");
    let end = super::house::follow(&mut happenings).await;
    assert!(matches!(&end, End::Succeeded(value) if *value == most));
    let runs =
        house.engine.store().read().runs(&stepwell_engine::store::RunFilter::default()).expect("they can be read");
    assert_eq!(runs.runs.len(), 2, "what was refused has started nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_has_a_name() {
    let house = House::new(Budget::Default).await;
    let module = house.engine.add_module(made(WAITS)).await.expect("it is a module").digest;
    let waiting = house.run(&module).await;
    for name in [String::new(), "x".repeat(MAX_NAME_BYTES + 1), "a\nb".to_owned(), "\0".to_owned()] {
        let sent = house.engine.send_event(waiting.run.key, &name, &Json::null(), None).await;
        assert!(sent.is_err_and(|error| error.is(Code::InvalidArgument)), "{name:?}");
        let started = house.engine.start(StartRun {
            digest: module.clone(),
            workflow: None,
            input: Json::null(),
            run_key: None,
            run_timeout_ms: None,
            events: vec![(name.clone(), Json::null())],
            tags: Vec::new(),
            delay_ms: 0,
            retry_of: None,
            concurrency_key: None,
            priority: 0,
        });
        assert!(started.await.is_err_and(|error| error.is(Code::InvalidArgument)), "{name:?}");
    }
    let longest = "é".repeat(MAX_NAME_BYTES / 2);
    house.engine.send_event(waiting.run.key, &longest, &Json::null(), None).await.expect("it is a name");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_module_is_refused() {
    let house = House::new(Budget::Default).await;
    let whole = made(WAITS);
    let mut vast = whole.clone();
    // A custom section of the component, as long as it says.
    vast.extend([0, 0x80, 0x80, 0x80, 0x20]);
    vast.resize(whole.len() + 5 + (64 << 20), 0);
    let mut cases = vec![
        (Vec::new(), "not a WebAssembly module"),
        (b"#!/bin/sh\nrm -rf /\n".to_vec(), "not a WebAssembly module"),
        (b"\0asm".to_vec(), "not a WebAssembly module"),
        (b"\0asm\x0d\0\x01\0".to_vec(), "no such export"),
        (b"\0asm\x01\0\0\0".to_vec(), "a WebAssembly core module"),
        (b"\0asm\xff\xff\xff\xff".to_vec(), "not a valid WebAssembly component"),
        (vec![0; 100 << 20], "it has 104857600 bytes; a module may have"),
        (vast, "a module may have"),
    ];
    cases.extend((1..8).map(|part| (whole[..whole.len() * part / 8].to_vec(), "not a valid WebAssembly component")));
    for (bytes, says) in cases {
        let length = bytes.len();
        let error = house.engine.add_module(bytes).await.expect_err("it is no module");
        assert!(error.is(Code::InvalidModule) && error.message.contains(says), "{length} bytes: {error}");
    }
    house.neighbour().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_with_any_byte_changed_is_refused_or_runs_to_some_end() {
    let house = House::new(Budget::Short).await;
    let whole = made("(func $run (result i32) (call $ok-null))");
    let (mut refused, mut ran) = (0, 0);
    for part in 0..97 {
        let mut changed = whole.clone();
        let at = changed.len() * part / 97;
        changed[at] ^= 0x55;
        match house.engine.add_module(changed).await {
            Err(error) => {
                assert!(error.is(Code::InvalidModule) || error.is(Code::InvalidPolicy), "byte {at}: {error}");
                refused += 1;
            }
            Ok(module) if module.workflows.len() == 1 => {
                let _ = house.run(&module.digest).await;
                ran += 1;
            }
            Ok(_) => {}
        }
    }
    assert!(refused > 0 && ran > 0, "{refused} refused, {ran} ran");
    house.neighbour().await;
}

/// A function whose locals all live across nested loops: for a compiler each of them is a value of each loop.
fn entangled(locals: usize, loops: usize) -> Vec<u8> {
    let (open, close) = ("(loop ".repeat(loops), ")".repeat(loops));
    let uses: String =
        (0..locals).map(|n| format!("(local.set {n} (i32.add (local.get {n}) (i32.const 1)))")).collect();
    let locals = "i32 ".repeat(locals);
    made(&format!(
        "(func $knot (local {locals}) {open} {uses} (br_if 0 (local.get 0)) {close})
         (func $run (result i32) (call $knot) (call $ok-null))"
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_that_takes_too_long_to_compile_is_refused_and_runs_go_on() {
    let house = House::with(|settings| settings.compile_limit = std::time::Duration::from_millis(500)).await;
    let error = house.engine.add_module(entangled(12_000, 80)).await.expect_err("it takes too long");
    assert!(error.is(Code::InvalidModule) && error.message.contains("longer than 0.5 s to compile"), "{error}");
    // It is still being compiled: whoever comes now is told so, and runs of what is compiled go on.
    let error = house.engine.add_module(made(WAITS)).await.expect_err("another is being compiled");
    assert!(error.is(Code::Internal) && error.message.contains("other modules"), "{error}");
    house.neighbour().await;
}

/// `stepwell run` of a guest's component, with JSON on stdout or without.
fn program(folder: &str, name: &str, args: &[&str]) -> (Project, Finished) {
    let guest: Guest = guests(folder).into_iter().find(|guest| guest.name == name).expect("there is such a guest");
    let project = Project::new();
    let file = project.path().join("guest.wasm");
    std::fs::write(&file, guest.component.expect("it is a component")).expect("a file can be written");
    let file = file.display().to_string();
    let end = project.stepwell(&[&["run", &file], args].concat());
    (project, end)
}

#[test]
fn the_program_says_it_by_its_exit_code() {
    let short = ["--workflow-turn-ms", "300", "--body-turn-ms", "300"];
    for (folder, name, code, says) in [
        ("both", "unreachable in-workflow-code", 1, "workflows.trap"),
        ("both", "recursion in-workflow-code", 1, "workflows.stack_overflow"),
        ("both", "memory-bomb in-workflow-code", 1, "workflows.memory_limit"),
        ("both", "loop in-workflow-code", 1, "workflows.turn_timeout"),
        ("both", "loop in-a-body", 0, "workflows.turn_timeout"),
        ("both", "unreachable in-a-body", 0, "workflows.trap"),
        ("runs", "deadlock", 1, "workflows.deadlock"),
        ("runs", "replays-another-kind", 4, "workflows.replay_mismatch"),
        ("runs", "traps-whenever-it-is-replayed", 4, "workflows.recovery_limit"),
        ("modules", "start-traps", 3, "unreachable"),
        ("modules", "describes-a-name-twice", 3, "two workflows have the name"),
    ] {
        let (project, end) = program(folder, name, &short);
        let end = end.expect_code(code);
        assert!(end.stderr.contains(says), "{name}: {end:#?}");
        match code {
            3 => assert!(project.runs(&[]).is_empty(), "{name}"),
            4 => assert_eq!(project.show(&project.only_run())["status"], "paused", "{name}"),
            1 => assert_eq!(project.show(&project.only_run())["status"], "failed", "{name}"),
            _ => assert_eq!(project.show(&project.only_run())["status"], "succeeded", "{name}"),
        }
    }
}

#[test]
fn a_value_nested_deeply_is_shown_in_every_form() {
    for (name, args) in [("nested-deeply", &[][..]), ("step-result-nested-deeply", &["--json"])] {
        let (project, end) = program("runs", name, args);
        let end = end.expect_code(0);
        assert!(end.stdout.contains("[[[[[["), "{name}");
        let run = project.only_run();
        for args in [
            &["runs", "show", &run][..],
            &["runs", "show", &run, "--json"],
            &["runs", "journal", &run],
            &["runs", "journal", &run, "--json"],
        ] {
            let _ = project.stepwell(args).expect_code(0);
        }
    }
}

#[test]
fn a_file_of_100_mb_is_not_even_read() {
    let project = Project::new();
    let file = std::fs::File::create(project.path().join("vast.wasm")).expect("a file can be made");
    // It has holes, and takes no room on the disk.
    file.set_len(100_000_000).expect("a file can be long");
    let end = project.stepwell(&["run", "vast.wasm"]).expect_code(3);
    assert!(end.stderr.contains(&format!("100000000 bytes; a module may have {MAX_MODULE_BYTES}")), "{end:#?}");
}
