;; Answers the second attempt while the first is open.
;; verdict: succeeded "workflows.attempt_closed"
;; journal: 1 attempt_started
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (drop (call $finish-of (i32.const 0) (i32.const 2) (i32.const 2064) (i32.const 1)))
  (call $ok-refusal))
