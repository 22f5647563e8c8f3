//! WASI as Rust, Go and C guests meet it: the first preview, through the adapter that their toolchains link.

use stepwell_host::{TrapKind, TurnEnd};

use crate::support::{Asked, ample, host, invoke, json, trapped, wasi};

const IMPORTS: &str = r#"
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $fd_prestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
"#;

/// Words for the guests below. `$check` traps unless its arguments are equal.
const WORDS: &str = r#"
  (func $check (param i32 i32)
    (if (i32.ne (local.get 0) (local.get 1)) (then (unreachable))))
  (func $check64 (param i64 i64)
    (if (i64.ne (local.get 0) (local.get 1)) (then (unreachable))))
  (func $write (param $fd i32) (param $text i32) (param $length i32)
    (i32.store (i32.const 3000) (local.get $text))
    (i32.store (i32.const 3004) (local.get $length))
    (call $check (i32.const 0) (call $fd_write (local.get $fd) (i32.const 3000) (i32.const 1) (i32.const 3008)))
    (call $check (local.get $length) (i32.load (i32.const 3008))))
  (data (i32.const 3100) "one\ntwo\0a\ff half")
"#;

async fn run(body: &str) -> (TurnEnd, Asked) {
    let host = host();
    let module = host.compile(&wasi(IMPORTS, &format!("{WORDS} {body}"))).unwrap_or_else(|e| panic!("{e}"));
    let (mut invocation, asked) = invoke(&host, &module);
    (invocation.turn(None, ample()).await, asked)
}

#[tokio::test]
async fn what_is_written_becomes_lines_of_the_log() {
    let body = r#"
      (func $run (result i32)
        (call $write (i32.const 1) (i32.const 3100) (i32.const 5))    ;; one\nt
        (call $write (i32.const 2) (i32.const 3100) (i32.const 4))    ;; one\n
        (call $write (i32.const 1) (i32.const 3105) (i32.const 9))    ;; wo\n, a byte that is no UTF-8, and half a line
        (call $ok-null))
    "#;
    let (end, asked) = run(body).await;
    assert_eq!(end, TurnEnd::Returned(Ok(json("null"))));
    assert_eq!(asked.list(), ["log Info one", "log Warn one", "log Info two", "log Info \u{fffd} half"]);
}

#[tokio::test]
async fn half_a_line_before_a_trap_is_not_lost() {
    let body = "(func $run (result i32) (call $write (i32.const 2) (i32.const 3100) (i32.const 3)) (unreachable))";
    let (end, asked) = run(body).await;
    trapped(end, TrapKind::Trap);
    assert_eq!(asked.list(), ["log Warn one"]);
}

#[tokio::test]
async fn a_line_without_end_is_cut() {
    let body = r#"
      (func $run (result i32)
        (local $n i32)
        (memory.fill (i32.const 20000) (i32.const 120) (i32.const 1000))
        (loop $l
          (call $write (i32.const 1) (i32.const 20000) (i32.const 1000))
          (br_if $l (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 100))))
        (call $write (i32.const 1) (i32.const 3103) (i32.const 1))
        (call $ok-null))
    "#;
    let (_, asked) = run(body).await;
    let lengths: Vec<_> = asked.list().iter().map(String::len).collect();
    assert_eq!(lengths, ["log Info ".len() + stepwell_core::limits::MAX_LOG_LINE_BYTES]);
}

#[tokio::test]
async fn clock_and_randomness_are_the_engines() {
    let body = r#"
      (func $run (result i32)
        (call $check (i32.const 0) (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 4000)))
        (call $check64 (i64.const 1000000000) (i64.load (i32.const 4000)))
        (call $check (i32.const 0) (call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 4000)))
        (call $check64 (i64.const 1000000000) (i64.load (i32.const 4000)))
        (call $check (i32.const 0) (call $random_get (i32.const 4000) (i32.const 12)))
        (call $check64 (i64.const 7) (i64.load (i32.const 4000)))
        (call $check (i32.const 7) (i32.load (i32.const 4008)))
        (call $ok-null))
    "#;
    assert_eq!(run(body).await.0, TurnEnd::Returned(Ok(json("null"))));
}

#[tokio::test]
async fn a_wait_for_the_clock_ends_at_once_and_moves_the_monotonic_clock() {
    // A subscription to the monotonic clock (1), an hour from now.
    let body = r#"
      (func $run (result i32)
        (i32.store (i32.const 4016) (i32.const 1))
        (i64.store (i32.const 4024) (i64.const 3600000000000))
        (call $check (i32.const 0) (call $poll_oneoff (i32.const 4000) (i32.const 4100) (i32.const 1) (i32.const 4200)))
        (call $check (i32.const 1) (i32.load (i32.const 4200)))
        (call $check (i32.const 0) (call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 4300)))
        (call $check64 (i64.const 3601000000000) (i64.load (i32.const 4300)))
        (call $ok-null))
    "#;
    assert_eq!(run(body).await.0, TurnEnd::Returned(Ok(json("null"))));
}

#[tokio::test]
async fn what_a_turn_has_waited_for_is_not_seen_in_the_next() {
    let body = r#"
      (func $run (result i32)
        (i32.store (i32.const 4016) (i32.const 1))
        (i64.store (i32.const 4024) (i64.const 3600000000000))
        (call $check (i32.const 0) (call $poll_oneoff (i32.const 4000) (i32.const 4100) (i32.const 1) (i32.const 4200)))
        (drop (call $next))
        (call $check (i32.const 0) (call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 4300)))
        (call $check64 (i64.const 1000000000) (i64.load (i32.const 4300)))
        (call $ok-null))
    "#;
    let host = host();
    let module = host.compile(&wasi(IMPORTS, &format!("{WORDS} {body}"))).unwrap_or_else(|e| panic!("{e}"));
    let (mut invocation, _) = invoke(&host, &module);
    assert_eq!(invocation.turn(None, ample()).await, TurnEnd::Quiet);
    let end = invocation.turn(Some(stepwell_core::contract::Event::Cancelled), ample()).await;
    assert_eq!(end, TurnEnd::Returned(Ok(json("null"))));
}

#[tokio::test]
async fn there_are_no_files_no_input_no_environment_and_no_arguments() {
    // 8 is "no such descriptor".
    let body = r#"
      (func $run (result i32)
        (call $check (i32.const 8) (call $fd_prestat_get (i32.const 3) (i32.const 4000)))
        (call $check (i32.const 8) (call $path_open (i32.const 3) (i32.const 0) (i32.const 3100) (i32.const 3)
          (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 4000)))
        (call $check (i32.const 0) (call $environ_sizes_get (i32.const 4000) (i32.const 4004)))
        (call $check (i32.const 0) (i32.load (i32.const 4000)))
        (call $check (i32.const 0) (call $args_sizes_get (i32.const 4000) (i32.const 4004)))
        (call $check (i32.const 0) (i32.load (i32.const 4000)))
        (i32.store (i32.const 3000) (i32.const 5000))
        (i32.store (i32.const 3004) (i32.const 100))
        (call $check (i32.const 0) (call $fd_read (i32.const 0) (i32.const 3000) (i32.const 1) (i32.const 3008)))
        (call $check (i32.const 0) (i32.load (i32.const 3008)))
        (call $ok-null))
    "#;
    assert_eq!(run(body).await.0, TurnEnd::Returned(Ok(json("null"))));
}

#[tokio::test]
async fn to_exit_is_a_trap() {
    let (end, _) = run("(func $run (result i32) (call $proc_exit (i32.const 3)) (unreachable))").await;
    assert!(trapped(end, TrapKind::Trap).contains("exit status"));
}
