//! Guests that mean no good, or were badly written: each ends by its kind, the host goes on, and others are undisturbed.

use std::time::{Duration, Instant};

use stepwell_core::contract::Event;
use stepwell_host::{Host, TrapKind, TurnDeadline, TurnEnd};

use crate::support::{ample, attempt, blocking, first_turn, host, invoke, json, settings, short, trapped};

const SPIN: &str = "(func $run (result i32) (loop $l (br $l)) (unreachable))";

#[tokio::test]
async fn a_loop_ends_at_the_turns_budget_and_another_invocation_is_undisturbed() {
    let host = host();
    let spinning = host.compile(&blocking(SPIN)).unwrap();
    let waiting = host
        .compile(&blocking("(func $run (result i32) (drop (call $next)) (drop (call $next)) (call $ok-value))"))
        .unwrap();
    let (mut quiet, _) = invoke(&host, &waiting);
    assert_eq!(quiet.turn(None, ample()).await, TurnEnd::Quiet);
    let (mut spinner, _) = invoke(&host, &spinning);
    let spin = tokio::spawn(async move { spinner.turn(None, TurnDeadline::budget_ms(300)).await });
    // Both on this one thread: the other takes its turns while the first spins.
    assert_eq!(quiet.turn(Some(attempt()), ample()).await, TurnEnd::Quiet);
    let end = quiet.turn(Some(Event::Completed(0, json("5"))), ample()).await;
    assert_eq!(end, TurnEnd::Returned(Ok(json("5"))));
    assert!(trapped(spin.await.unwrap(), TrapKind::TurnBudget).contains("300 ms"));
}

#[tokio::test]
async fn a_loop_ends_at_the_deadline_if_that_is_earlier_than_the_budget() {
    let host = host();
    let module = host.compile(&blocking(SPIN)).unwrap();
    let (mut invocation, _) = invoke(&host, &module);
    let deadline = TurnDeadline::budget_ms(60_000).until(Instant::now() + Duration::from_millis(30));
    trapped(invocation.turn(None, deadline).await, TrapKind::Deadline);
    trapped(invocation.turn(None, ample()).await, TrapKind::Ended);
}

#[tokio::test]
async fn only_the_invocation_whose_budget_is_used_up_is_ended() {
    let host = host();
    let module = host.compile(&blocking(SPIN)).unwrap();
    let (mut first, _) = invoke(&host, &module);
    let (mut second, _) = invoke(&host, &module);
    let long = second.interrupt_handle();
    let second = tokio::spawn(async move { second.turn(None, TurnDeadline::budget_ms(60_000)).await });
    trapped(first.turn(None, short()).await, TrapKind::TurnBudget);
    assert!(!second.is_finished());
    long.interrupt();
    trapped(second.await.unwrap(), TrapKind::Interrupted);
}

#[tokio::test]
async fn traps_are_told_apart() {
    let host = host();
    let cases = [
        ("(func $run (result i32) (unreachable))", TrapKind::Trap, "unreachable"),
        ("(func $run (result i32) (i32.div_s (i32.const 1) (i32.const 0)))", TrapKind::Trap, "divide by zero"),
        ("(func $run (result i32) (i32.load (i32.const -8)))", TrapKind::Trap, "out of bounds memory"),
        ("(func $run (result i32) (call $run) (drop) (call $run))", TrapKind::StackOverflow, "call stack exhausted"),
        // A result beyond its memory.
        ("(func $run (result i32) (i32.const -16))", TrapKind::Trap, ""),
        ("(func $run (result i32) (call $ok (i32.const -1) (i32.const 8)))", TrapKind::Trap, ""),
    ];
    for (body, kind, text) in cases {
        let message = trapped(first_turn(&host, body).await, kind);
        assert!(message.contains(text), "{body}: {message}");
    }
}

#[tokio::test]
async fn a_trap_names_the_functions_that_were_running() {
    let body = "(func $charge (unreachable)) (func $run (result i32) (call $charge) (call $ok-null))";
    let message = trapped(first_turn(&host(), body).await, TrapKind::Trap);
    assert!(message.contains("charge < ") && message.contains("run"), "{message}");
}

#[tokio::test]
async fn memory_beyond_the_limit_is_a_trap_in_the_pool_and_on_demand() {
    // 4 MiB are 64 pages; it has four.
    let grow =
        |pages: u32| format!("(func $run (result i32) (drop (memory.grow (i32.const {pages}))) (call $ok-null))");
    for pool_instances in [4, 0] {
        let host = Host::new(stepwell_host::HostSettings { pool_instances, ..settings() }).unwrap();
        assert_eq!(first_turn(&host, &grow(60)).await, TurnEnd::Returned(Ok(json("null"))));
        for pages in [61, 64, 1000, 65_535] {
            let message = trapped(first_turn(&host, &grow(pages)).await, TrapKind::MemoryLimit);
            assert!(message.contains("4194304"), "{pages}: {message}");
        }
        let forever = "(func $run (result i32) (loop $l (drop (memory.grow (i32.const 1))) (br $l)) (unreachable))";
        trapped(first_turn(&host, forever).await, TrapKind::MemoryLimit);
    }
}

#[tokio::test]
async fn what_an_instance_begins_with_counts_too() {
    // 61 pages beside the four of the first memory.
    let large = "(memory $other 61) (func $run (result i32) (call $ok-null))";
    let table = "(table 1000001 funcref) (func $run (result i32) (call $ok-null))";
    for pool_instances in [4, 0] {
        let host = Host::new(stepwell_host::HostSettings { pool_instances, ..settings() }).unwrap();
        trapped(first_turn(&host, large).await, TrapKind::MemoryLimit);
        trapped(first_turn(&host, table).await, TrapKind::MemoryLimit);
    }
}

#[tokio::test]
async fn a_memorys_own_maximum_is_the_guests_affair() {
    let body = r#"
      (memory $small 1 2)
      (func $run (result i32)
        (if (i32.ne (memory.grow $small (i32.const 2)) (i32.const -1)) (then (unreachable)))
        (call $ok-null))
    "#;
    assert_eq!(first_turn(&host(), body).await, TurnEnd::Returned(Ok(json("null"))));
}

#[tokio::test]
async fn a_start_function_is_within_the_turns_budget() {
    let body = "(func $spin (loop $l (br $l))) (start $spin) (func $run (result i32) (call $ok-null))";
    let host = host();
    let module = host.compile(&blocking(body)).unwrap();
    trapped(invoke(&host, &module).0.turn(None, short()).await, TrapKind::TurnBudget);
    let body = "(func $dead (unreachable)) (start $dead) (func $run (result i32) (call $ok-null))";
    trapped(first_turn(&host, body).await, TrapKind::Trap);
}
