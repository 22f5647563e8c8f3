;; Closes all that is open, and waits.
;; verdict: failed workflows.deadlock
(func $run (result i32)
  (call $wait-event (i32.const 2072) (i32.const 1) (i32.const 0) (i64.const 0) (i32.const 256))
  (call $close (i32.const 0) (i32.const 256))
  (drop (call $next))
  (unreachable))
