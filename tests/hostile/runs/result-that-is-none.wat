;; Returns what is no JSON.
;; verdict: failed workflows.invalid_argument with "not valid JSON"
(func $run (result i32)
  (call $ok (i32.const 2088) (i32.const 3)))
