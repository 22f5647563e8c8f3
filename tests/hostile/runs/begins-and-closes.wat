;; Begins sleeps and closes them again within one turn, sixty thousand times: refused at the journal's length.
;; verdict: failed workflows.journal_too_long
;; budget: default
;; journal: 50000 sleep_begun
;; journal: 50000 closed
(func $run (result i32)
  (local $n i32)
  (loop $again
    (call $sleep (i64.const 60000) (i32.const 256))
    (if (i32.eqz (i32.load8_u (i32.const 256)))
      (then (call $close (call $operation) (i32.const 256))))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $n) (i32.const 60000))))
  (drop (call $next))
  (call $ok-null))
