;; Delays a body by more than ten years.
;; verdict: failed workflows.invalid_argument
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (call $delay (i32.const 0) (i32.const 1) (i64.const -1) (i32.const 256))
  (i32.const 256))
