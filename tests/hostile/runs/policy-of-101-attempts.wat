;; Begins a step with 101 attempts.
;; verdict: failed workflows.invalid_policy
;; journal: 0 step_begun
(func $run (result i32)
  (i32.store (i32.const 1024) (i32.const 2072))
  (i32.store (i32.const 1028) (i32.const 1))
  (i32.store8 (i32.const 1032) (i32.const 1)) (i32.store (i32.const 1036) (i32.const 101))
  (call $step-begin (i32.const 1024) (i32.const 256))
  (i32.const 256))
