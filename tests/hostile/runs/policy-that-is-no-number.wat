;; Begins a step with a multiplier that is no number, of unusual bits.
;; verdict: failed workflows.invalid_policy
;; journal: 0 step_begun
(func $run (result i32)
  (i32.store (i32.const 1024) (i32.const 2072))
  (i32.store (i32.const 1028) (i32.const 1))
  (i32.store8 (i32.const 1072) (i32.const 1)) (i64.store (i32.const 1080) (i64.const 0x7ff4dead0000beef))
  (call $step-begin (i32.const 1024) (i32.const 256))
  (i32.const 256))
