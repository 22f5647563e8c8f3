;; Describes a workflow whose input schema is no JSON.
;; verdict: refused with "the input schema is not valid JSON"
(func $describe-otherwise (result i32)
  (i32.store8 (i32.const 8112) (i32.const 1))
  (i32.store (i32.const 8116) (i32.const 2088))
  (i32.store (i32.const 8120) (i32.const 3))
  (call $describe))
(func $run (result i32) (call $ok-null))
