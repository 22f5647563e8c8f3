;; Returns two mebibytes exactly.
;; verdict: succeeded a text of 2097152 bytes
(func $run (result i32)
  (call $room (i32.const 2200000))
  (global.set $heap (i32.const 2200000))
  (memory.fill (i32.const 65536) (i32.const 0x78) (i32.const 2097153))
  (i32.store8 (i32.const 65536) (i32.const 0x22))
  (i32.store8 (i32.const 2162687) (i32.const 0x22))
  (call $ok (i32.const 65536) (i32.const 2097152)))
