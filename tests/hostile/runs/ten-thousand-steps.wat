;; Begins ten thousand steps of one name at once, and ends each as it is asked to.
;; verdict: succeeded null
;; budget: default
;; journal: 10000 attempt_ended
;; journal: 10000 delivered
(func $run (result i32)
  (local $n i32)
  (local.set $n (i32.const 10000))
  (loop $again
    (if (call $begin (i32.const 2072) (i32.const 1)) (then (unreachable)))
    (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
  (local.set $n (i32.const 10000))
  (loop $again
    (if (i32.eqz (call $until-told)) (then (unreachable)))
    (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
  (call $ok-null))
