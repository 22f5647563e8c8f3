;; Returns a million brackets, one in the other.
;; verdict: succeeded a text of 2000000 bytes
(func $run (result i32)
  (call $room (i32.const 2100000))
  (memory.fill (i32.const 65536) (i32.const 0x5b) (i32.const 1000000))
  (memory.fill (i32.const 1065536) (i32.const 0x5d) (i32.const 1000000))
  (call $ok (i32.const 65536) (i32.const 2000000)))
