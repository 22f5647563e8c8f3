;; Waits for an event of another name.
;; verdict: paused workflows.replay_mismatch with "recorded was a wait for event \"a\", but now came a wait for event \"b\""
;; after the replay: resumed
(data (i32.const 2200) "nobody")
(global $lived (mut i32) (i32.const 0))
(func $other (param $live i32)
  (call $wait-event (select (i32.const 2072) (i32.const 2076) (local.get $live)) (i32.const 1) (i32.const 0) (i64.const 0) (i32.const 256)))
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (loop $again
    (if (i32.eqz (call $next))
      (then
        (global.set $lived (i32.const 1))
        (call $finish)
        (br $again))))
  ;; Live the body has been here. In the replay after the sleep it has not.
  (call $other (global.get $lived))
  (call $sleep (i64.const 300) (i32.const 256))
  (drop (call $next))
  (drop (call $next))
  (call $ok-null))
