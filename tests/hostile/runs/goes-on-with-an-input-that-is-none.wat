;; Goes on in a fresh run with an input that is no JSON.
;; verdict: failed workflows.invalid_argument with "not valid JSON"
;; journal: 0 continued_as_new
(func $run (result i32)
  (call $continue-as-new (i32.const 2088) (i32.const 3) (i32.const 256))
  (i32.const 256))
