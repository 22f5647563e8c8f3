;; Returns while a body of it waits: the attempt is closed.
;; verdict: succeeded null
;; journal: 1 attempt_ended
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (call $ok-null))
