;; Starts a child run with an input that is no JSON.
;; verdict: failed workflows.invalid_argument with "not valid JSON"
(func $run (result i32)
  (call $start-run (i32.const 2048) (i32.const 4) (i32.const 2088) (i32.const 3)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))
  (i32.const 256))
