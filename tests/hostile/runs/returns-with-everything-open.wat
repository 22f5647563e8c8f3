;; Returns with a step, a sleep and a wait that nobody awaits.
;; verdict: succeeded null
;; journal: 0 attempt_started
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (call $sleep (i64.const 60000) (i32.const 256))
  (call $wait-event (i32.const 2072) (i32.const 1) (i32.const 0) (i64.const 0) (i32.const 256))
  (call $ok-null))
