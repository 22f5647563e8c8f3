;; Waits for an event whose name is 200 bytes, which is allowed.
;; verdict: succeeded null
;; journal: 1 wait_begun
(global $n i32 (i32.const 200))
(func $run (result i32)
  (memory.fill (i32.const 65536) (i32.const 120) (global.get $n))
  (call $wait-event (i32.const 65536) (global.get $n) (i32.const 0) (i64.const 0) (i32.const 256))
  (call $ok-refusal))
