;; Ends step after step with two megabytes.
;; verdict: failed workflows.journal_too_long with "67108864"
;; budget: default
(func $run (result i32)
  (call $room (i32.const 2200000))
  (global.set $heap (i32.const 2200000))
  (memory.fill (i32.const 65536) (i32.const 0x20) (i32.const 2097152))
  (i32.store8 (i32.const 65536) (i32.const 0x22))
  (i32.store8 (i32.const 2162687) (i32.const 0x22))
  (loop $again
    (drop (call $begin (i32.const 2072) (i32.const 1)))
    (drop (call $next))
    (drop (call $finish-with (i32.const 65536) (i32.const 2097152)))
    (drop (call $next))
    (global.set $heap (i32.const 2200000))
    (br $again))
  (unreachable))
