;; Answers an attempt of an operation that there is not.
;; verdict: succeeded "workflows.unknown_operation"
;; journal: 1 attempt_started
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (drop (call $finish-of (i32.const 7) (i32.const 1) (i32.const 2064) (i32.const 1)))
  (call $ok-refusal))
