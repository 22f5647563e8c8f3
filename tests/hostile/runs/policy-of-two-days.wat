;; Begins a step with delays of up to two days.
;; verdict: failed workflows.invalid_policy
;; journal: 0 step_begun
(func $run (result i32)
  (i32.store (i32.const 1024) (i32.const 2072))
  (i32.store (i32.const 1028) (i32.const 1))
  (i32.store8 (i32.const 1056) (i32.const 1)) (i64.store (i32.const 1064) (i64.const 172800000))
  (call $step-begin (i32.const 1024) (i32.const 256))
  (i32.const 256))
