;; Fails where it slept.
;; verdict: paused workflows.replay_mismatch with "the workflow's end, with the error"
;; after the replay: resumed
(global $lived (mut i32) (i32.const 0))
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (loop $again
    (if (i32.eqz (call $next))
      (then
        (global.set $lived (i32.const 1))
        (call $finish)
        (br $again))))
  ;; Live the body has been here. In the replay after the sleep it has not.
  (if (global.get $lived)
    (then (call $sleep (i64.const 300) (i32.const 256)))
    (else (i32.store8 (i32.const 256) (i32.const 1)) (return (i32.const 256))))
  (drop (call $next))
  (drop (call $next))
  (call $ok-null))
