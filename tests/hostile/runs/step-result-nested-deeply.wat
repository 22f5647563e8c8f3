;; Ends a step with a million brackets, and returns what it is told.
;; verdict: succeeded a text of 2000000 bytes
(func $run (result i32)
  (call $room (i32.const 2100000))
  (global.set $heap (i32.const 2100000))
  (memory.fill (i32.const 65536) (i32.const 0x5b) (i32.const 1000000))
  (memory.fill (i32.const 1065536) (i32.const 0x5d) (i32.const 1000000))
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (loop $again
    (if (i32.eqz (call $next))
      (then
        (drop (call $finish-with (i32.const 65536) (i32.const 2000000)))
        (br $again))))
  (call $ok-value))
