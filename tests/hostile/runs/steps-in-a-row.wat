;; Runs ten thousand steps, one after the other: each a turn or two, and none of them long.
;; verdict: succeeded null
;; budget: default
;; journal: 10000 step_begun
;; journal: 10000 attempt_ended
(func $run (result i32)
  (local $n i32)
  (local.set $n (i32.const 10000))
  (loop $again
    (drop (call $begin (i32.const 2072) (i32.const 1)))
    (if (i32.eqz (call $until-told)) (then (unreachable)))
    (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
  (call $ok-null))
