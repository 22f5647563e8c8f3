;; Describes a workflow whose multiplier is no number.
;; verdict: refused with "multiplier"
(func $describe-otherwise (result i32)
  (i32.store8 (i32.const 8048) (i32.const 1))
  (f64.store (i32.const 8056) (f64.const -nan))
  (call $describe))
(func $run (result i32) (call $ok-null))
