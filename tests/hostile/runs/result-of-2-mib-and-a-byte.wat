;; Returns a byte more than may be recorded.
;; verdict: failed workflows.result_too_large
(func $run (result i32)
  (call $room (i32.const 2200000))
  (global.set $heap (i32.const 2200000))
  (memory.fill (i32.const 65536) (i32.const 0x78) (i32.const 2097153))
  (i32.store8 (i32.const 65536) (i32.const 0x22))
  (i32.store8 (i32.const 2162688) (i32.const 0x22))
  (call $ok (i32.const 65536) (i32.const 2097153)))
