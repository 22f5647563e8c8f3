;; Begins a wait in a body.
;; verdict: failed workflows.operation_inside_step
;; journal: 1 step_begun
;; journal: 0 sleep_begun
;; journal: 0 wait_begun
;; journal: 0 closed
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (call $wait-event (i32.const 2072) (i32.const 1) (i32.const 0) (i64.const 0) (i32.const 256))
  (i32.const 256))
