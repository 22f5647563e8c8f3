;; Begins a step in the body of another.
;; verdict: failed workflows.operation_inside_step
;; journal: 1 step_begun
;; journal: 0 sleep_begun
;; journal: 0 wait_begun
;; journal: 0 closed
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (drop (call $begin (i32.const 2076) (i32.const 1)))
  (i32.const 256))
