;; Answers a sleep as if it were a step.
;; verdict: succeeded "workflows.unknown_operation"
(func $run (result i32)
  (call $sleep (i64.const 60000) (i32.const 256))
  (drop (call $finish-of (i32.const 0) (i32.const 1) (i32.const 2064) (i32.const 1)))
  (call $ok-refusal))
