;; Sleeps for no time, over and over.
;; verdict: failed workflows.journal_too_long with "50000"
;; budget: default
(func $run (result i32)
  (loop $again
    (call $sleep (i64.const 0) (i32.const 256))
    (drop (call $next))
    (br $again))
  (unreachable))
