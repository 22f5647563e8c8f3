;; Begins a step with a jitter below zero.
;; verdict: failed workflows.invalid_policy
;; journal: 0 step_begun
(func $run (result i32)
  (i32.store (i32.const 1024) (i32.const 2072))
  (i32.store (i32.const 1028) (i32.const 1))
  (i32.store8 (i32.const 1088) (i32.const 1)) (f64.store (i32.const 1096) (f64.const -0.1))
  (call $step-begin (i32.const 1024) (i32.const 256))
  (i32.const 256))
