;; Closes a sleep that it did not close.
;; verdict: paused workflows.replay_mismatch with "now came the close of operation"
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
    (then (call $sleep (i64.const 300) (i32.const 256)) (call $sleep (i64.const 0) (i32.const 256)) (drop (call $next)))
    (else (call $sleep (i64.const 300) (i32.const 256)) (call $close (i32.const 1) (i32.const 256)) (call $sleep (i64.const 0) (i32.const 256))))
  (drop (call $next))
  (drop (call $next))
  (call $ok-null))
