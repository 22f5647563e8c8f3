;; Ends a step with a byte more than may be recorded: no second attempt.
;; verdict: succeeded "workflows.result_too_large"
;; journal: 1 attempt_started
(func $run (result i32)
  (call $room (i32.const 2200000))
  (global.set $heap (i32.const 2200000))
  (memory.fill (i32.const 65536) (i32.const 0x78) (i32.const 2097153))
  (i32.store8 (i32.const 65536) (i32.const 0x22))
  (i32.store8 (i32.const 2162688) (i32.const 0x22))
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (drop (call $finish-with (i32.const 65536) (i32.const 2097153)))
  (if (i32.ne (call $next) (i32.const 4)) (then (unreachable)))
  (call $ok-failure))
