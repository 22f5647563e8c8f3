;; Has a body that waits for what does not come, in a step of 50 ms: it is expired, twice.
;; verdict: succeeded "workflows.step_timeout"
;; journal: 2 attempt_started
(func $run (result i32)
  (i32.store (i32.const 1024) (i32.const 2072))
  (i32.store (i32.const 1028) (i32.const 1))
  (i32.store8 (i32.const 1032) (i32.const 1))
  (i32.store (i32.const 1036) (i32.const 2))
  (i32.store8 (i32.const 1040) (i32.const 1))
  (i32.store8 (i32.const 1104) (i32.const 1))
  (i64.store (i32.const 1112) (i64.const 50))
  (call $step-begin (i32.const 1024) (i32.const 256))
  (loop $again (br_if $again (i32.lt_u (call $next) (i32.const 3))))
  (call $ok-failure))
