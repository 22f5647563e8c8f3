;; Closes a step whose body is under way, and then answers for the body.
;; verdict: succeeded "workflows.attempt_closed"
(func $run (result i32)
  ;; The step, and a sleep that gives workflow code its turn while the body waits.
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (call $sleep (i64.const 0) (i32.const 256))
  (drop (call $next))
  (if (i32.eqz (i32.load8_u (i32.const 512))) (then (drop (call $next))))
  (call $close (i32.const 0) (i32.const 256))
  (drop (call $finish-of (i32.const 0) (i32.const 1) (i32.const 2064) (i32.const 1)))
  (call $ok-refusal))
