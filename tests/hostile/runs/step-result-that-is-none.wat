;; Ends a step with what is no JSON: a failed attempt, and no second one.
;; verdict: succeeded "workflows.invalid_argument"
;; journal: 1 attempt_started
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (drop (call $finish-with (i32.const 2088) (i32.const 3)))
  (if (i32.ne (call $next) (i32.const 4)) (then (unreachable)))
  (call $ok-failure))
