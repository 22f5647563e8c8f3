//! Turns: what is delivered, when a guest is quiet, how an invocation ends.

use stepwell_core::contract::Event;
use stepwell_core::error::Code;
use stepwell_host::{TrapKind, TurnEnd};

use crate::support::{ample, attempt, blocking, component, first_turn, host, invoke, json, trapped};

const ONE_STEP: &str = r#"
  (func $run (result i32)
    (drop (call $begin))
    (drop (call $next))       ;; the attempt
    (call $finish)
    (drop (call $next))       ;; completed
    (call $ok-value))
"#;

#[tokio::test]
async fn a_step_is_begun_finished_and_heard_of() {
    let host = host();
    let module = host.compile(&blocking(ONE_STEP)).unwrap();
    let (mut invocation, asked) = invoke(&host, &module);
    assert_eq!(invocation.turn(None, ample()).await, TurnEnd::Quiet);
    assert_eq!(asked.list(), ["step-begin a"]);
    assert_eq!(invocation.turn(Some(attempt()), ample()).await, TurnEnd::Quiet);
    assert_eq!(asked.list(), ["step-begin a", "step-finish 0:1 ok 1"]);
    let end = invocation.turn(Some(Event::Completed(0, json("{\"paid\": 12}"))), ample()).await;
    assert_eq!(end, TurnEnd::Returned(Ok(json("{\"paid\": 12}"))));
    trapped(invocation.turn(None, ample()).await, TrapKind::Ended);
}

#[tokio::test]
async fn a_quiet_guest_stays_quiet_until_it_is_told_something() {
    let host = host();
    let module = host.compile(&blocking(ONE_STEP)).unwrap();
    let (mut invocation, asked) = invoke(&host, &module);
    for _ in 0..3 {
        assert_eq!(invocation.turn(None, ample()).await, TurnEnd::Quiet);
    }
    assert_eq!(asked.list(), ["step-begin a"]);
}

#[tokio::test]
async fn an_instance_that_was_idle_past_its_last_deadline_goes_on() {
    let host = host();
    let module = host.compile(&blocking(ONE_STEP)).unwrap();
    let (mut invocation, _) = invoke(&host, &module);
    // Hundreds of milliseconds are many epochs, and more than the deadline that the first turn had.
    let deadline = std::time::Instant::now() + std::time::Duration::from_millis(500);
    assert_eq!(invocation.turn(None, ample().until(deadline)).await, TurnEnd::Quiet);
    tokio::time::sleep_until((deadline + std::time::Duration::from_millis(50)).into()).await;
    assert_eq!(invocation.turn(Some(attempt()), ample()).await, TurnEnd::Quiet);
}

#[tokio::test]
async fn what_is_no_json_is_refused_at_the_call_and_fails_whatever_it_is_the_result_of() {
    let host = host();
    let body = r#"
      (func $run (result i32)
        (call $continue-as-new (i32.const 2080) (i32.const 3) (i32.const 256))
        (if (i32.load8_u (i32.const 256)) (then (call $reached)))
        (drop (call $next))
        ;; Taken, as a failure: a refusal would leave the attempt open.
        (if (i32.eqz (call $finish-with (i32.const 2080) (i32.const 3))) (then (call $reached)))
        (call $ok (i32.const 2080) (i32.const 3)))
    "#;
    let module = host.compile(&blocking(body)).unwrap();
    let (mut invocation, asked) = invoke(&host, &module);
    assert_eq!(invocation.turn(None, ample()).await, TurnEnd::Quiet);
    let TurnEnd::Returned(Err(error)) = invocation.turn(Some(attempt()), ample()).await else { panic!() };
    assert!(error.is(Code::InvalidArgument), "{error}");
    let asked = asked.list();
    assert_eq!((asked[0].as_str(), asked[2].as_str()), ("set-status reached", "set-status reached"), "{asked:?}");
    assert!(asked[1].starts_with("step-finish 0:1 workflows.invalid_argument"), "{asked:?}");
}

#[tokio::test]
async fn an_interrupted_invocation_does_not_go_on() {
    let host = host();
    let module = host.compile(&blocking("(func $run (result i32) (loop $l (br $l)) (unreachable))")).unwrap();
    let (mut invocation, _) = invoke(&host, &module);
    let handle = invocation.interrupt_handle();
    // While the guest spins the other branch is polled: on one thread, beside it.
    let mut polled = 0;
    let end = {
        let long = stepwell_host::TurnDeadline::budget_ms(60_000);
        let mut turn = std::pin::pin!(invocation.turn(None, long));
        loop {
            tokio::select! {
                biased;
                end = &mut turn => break end,
                () = std::future::ready(()) => {
                    polled += 1;
                    if polled == 3 { handle.interrupt(); }
                    tokio::task::yield_now().await;
                }
            }
        }
    };
    assert!(polled >= 3);
    trapped(end, TrapKind::Interrupted);
}

#[tokio::test]
async fn a_turn_that_was_dropped_is_taken_up() {
    let host = host();
    let body = r#"
      (func $run (result i32)
        (local $n i32)
        (local.set $n (i32.const 200000000))
        (loop $l (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (call $ok-null))
    "#;
    let module = host.compile(&blocking(body)).unwrap();
    let (mut invocation, _) = invoke(&host, &module);
    let long = stepwell_host::TurnDeadline::budget_ms(60_000);
    let mut dropped = 0;
    let end = loop {
        tokio::select! {
            biased;
            end = invocation.turn(None, long) => break end,
            () = std::future::ready(()) => dropped += 1,
        }
    };
    assert!(dropped > 0, "the guest was to be interrupted at least once");
    assert_eq!(end, TurnEnd::Returned(Ok(json("null"))));
}

#[tokio::test]
async fn a_guest_with_an_event_loop_is_quiet_in_one_next_and_trapped_in_two() {
    let host = host();
    for (calls, traps) in [(1, false), (2, true)] {
        let module = host.compile(&event_loop(calls)).unwrap();
        let (mut invocation, _) = invoke(&host, &module);
        let end = invocation.turn(None, ample()).await;
        if traps {
            assert!(trapped(end, TrapKind::Trap).contains("another `next` was pending"));
            continue;
        }
        assert_eq!(end, TurnEnd::Quiet);
        let end = invocation.turn(Some(Event::Completed(0, json("[1]"))), ample()).await;
        assert_eq!(end, TurnEnd::Returned(Ok(json("[1]"))));
    }
}

#[tokio::test]
async fn a_guest_that_waits_for_nothing_is_idle() {
    let host = host();
    let module = host.compile(&event_loop(0)).unwrap();
    assert_eq!(invoke(&host, &module).0.turn(None, ample()).await, TurnEnd::Idle);
}

/// A guest that calls the asynchronous `next` so many times, waits for any of them, and returns the event's value.
fn event_loop(calls: usize) -> Vec<u8> {
    let calls = "(call $wait-for (call $next (i32.const 512)))".repeat(calls);
    component(&format!(
        r#"(module
          (import "stepwell:workflow/turns@0.1.0" "[async-lower]next" (func $next (param i32) (result i32)))
          (import "$root" "[waitable-set-new]" (func $set-new (result i32)))
          (import "$root" "[waitable-join]" (func $join (param i32 i32)))
          (import "$root" "[subtask-drop]" (func $subtask-drop (param i32)))
          (import "[export]stepwell:workflow/workflows@0.1.0" "[task-return]run" (func $return
            (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32)))
          (memory (export "memory") 1)
          (global $heap (mut i32) (i32.const 16384))
          (global $set (mut i32) (i32.const 0))
          (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
            (global.get $heap)
            (global.set $heap (i32.add (global.get $heap) (i32.and (i32.add (local.get 3) (i32.const 15)) (i32.const -16)))))
          ;; A status: the subtask's number above its state.
          (func $wait-for (param $status i32)
            (call $join (i32.shr_u (local.get $status) (i32.const 4)) (global.get $set)))
          (func (export "[async-lift]stepwell:workflow/workflows@0.1.0#run") (param i32 i32 i32 i32) (result i32)
            (global.set $set (call $set-new))
            {calls}
            ;; Wait for the set.
            (i32.or (i32.const 2) (i32.shl (global.get $set) (i32.const 4))))
          (func (export "[callback][async-lift]stepwell:workflow/workflows@0.1.0#run")
            (param $event i32) (param $subtask i32) (param $state i32) (result i32)
            (call $subtask-drop (local.get $subtask))
            (call $return (i32.const 0) (i32.load (i32.const 524)) (i32.load (i32.const 528))
              (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
              (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i64.const 0) (i32.const 0))
            (i32.const 0))
          (func (export "stepwell:workflow/workflows@0.1.0#describe") (result i32) (i32.const 128)))"#
    ))
}

#[tokio::test]
async fn instances_beyond_the_pool_are_made_on_demand_and_are_the_same() {
    let host = host();
    let module = host.compile(&blocking(ONE_STEP)).unwrap();
    let mut invocations: Vec<_> = (0..9).map(|_| invoke(&host, &module).0).collect();
    for invocation in &mut invocations {
        assert_eq!(invocation.turn(None, ample()).await, TurnEnd::Quiet);
    }
    for invocation in &mut invocations {
        assert_eq!(invocation.turn(Some(attempt()), ample()).await, TurnEnd::Quiet);
        let end = invocation.turn(Some(Event::Completed(0, json("2"))), ample()).await;
        assert_eq!(end, TurnEnd::Returned(Ok(json("2"))));
    }
}

#[tokio::test]
async fn time_is_the_engines() {
    let body = r#"
      (func $run (result i32)
        (if (i64.eq (call $now-ms) (i64.const 1000)) (then (call $reached)))
        (call $ok-null))
    "#;
    assert_eq!(first_turn(&host(), body).await, TurnEnd::Returned(Ok(json("null"))));
    let host = host();
    let module = host.compile(&blocking(body)).unwrap();
    let (mut invocation, asked) = invoke(&host, &module);
    invocation.turn(None, ample()).await;
    assert_eq!(asked.list(), ["set-status reached"]);
}
