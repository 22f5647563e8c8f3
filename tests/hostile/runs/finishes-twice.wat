;; Answers its attempt a second time.
;; verdict: succeeded "workflows.attempt_closed"
;; journal: 1 attempt_ended
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (call $finish)
  (call $finish)
  ;; What is kept is the first answer. The code of the refusal is copied before anything else comes.
  (drop (call $ok-refusal))
  (global.set $length (i32.load (i32.const 268)))
  (if (i32.eqz (call $until-told)) (then (unreachable)))
  (call $ok (i32.const 8192) (global.get $length)))
(global $length (mut i32) (i32.const 0))
