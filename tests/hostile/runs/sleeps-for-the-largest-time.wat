;; Sleeps for the largest number of milliseconds.
;; verdict: failed workflows.invalid_argument
(func $run (result i32)
  (call $sleep (i64.const -1) (i32.const 256))
  (i32.const 256))
