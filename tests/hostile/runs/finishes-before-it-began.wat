;; Answers the first attempt before there is one.
;; verdict: succeeded "workflows.attempt_closed"
;; journal: 0 attempt_started
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $finish-of (i32.const 0) (i32.const 1) (i32.const 2064) (i32.const 1)))
  (call $ok-refusal))
