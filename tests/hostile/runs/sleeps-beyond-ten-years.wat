;; Sleeps a millisecond longer than ten years.
;; verdict: failed workflows.invalid_argument with "10 years"
;; journal: 0 sleep_begun
(func $run (result i32)
  (call $sleep (i64.const 315576000001) (i32.const 256))
  (i32.const 256))
