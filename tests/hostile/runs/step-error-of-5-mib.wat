;; Fails an attempt, for good, with five megabytes of U+0000: cut, and recorded.
;; verdict: succeeded "workflows.step_failed"
;; journal: 1 attempt_ended
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (call $room (i32.const 5400000))
  (global.set $heap (i32.const 5400000))
  (memory.fill (i32.const 65536) (i32.const 0) (i32.const 5242880))
  (memory.fill (i32.const 1536) (i32.const 0) (i32.const 128))
  (i32.store (i32.const 1540) (i32.const 1))
  (i32.store8 (i32.const 1544) (i32.const 1))
  (i32.store (i32.const 1572) (i32.const 65536))
  (i32.store (i32.const 1576) (i32.const 5242880))
  (i32.store8 (i32.const 1600) (i32.const 1))
  (call $step-finish (i32.const 1536) (i32.const 256))
  (if (i32.ne (call $next) (i32.const 4)) (then (unreachable)))
  (if (i32.ne (i32.load (i32.const 552)) (i32.const 8192)) (then (unreachable)))
  (call $ok-failure))
