;; Closes its own step in its body.
;; verdict: failed workflows.operation_inside_step
;; journal: 1 step_begun
;; journal: 0 sleep_begun
;; journal: 0 wait_begun
;; journal: 0 closed
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (call $close (i32.const 0) (i32.const 256))
  (i32.const 256))
