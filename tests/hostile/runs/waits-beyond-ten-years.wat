;; Waits for an event longer than ten years.
;; verdict: failed workflows.invalid_argument
(func $run (result i32)
  (call $wait-event (i32.const 2072) (i32.const 1) (i32.const 1) (i64.const 315576000001) (i32.const 256))
  (i32.const 256))
