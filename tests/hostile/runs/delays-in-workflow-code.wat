;; Begins a delay of an attempt that there is not.
;; verdict: failed workflows.unknown_operation
(func $run (result i32)
  (call $delay (i32.const 3) (i32.const 1) (i64.const 1) (i32.const 256))
  (i32.const 256))
