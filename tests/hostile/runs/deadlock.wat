;; Waits with nothing open.
;; verdict: failed workflows.deadlock with "nothing of the run is open"
(func $run (result i32)
  (drop (call $next))
  (unreachable))
