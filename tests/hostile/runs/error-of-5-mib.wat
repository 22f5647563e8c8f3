;; Fails with a message of five megabytes: it is cut.
;; verdict: failed my.code
;; message: 8192 bytes
(func $run (result i32)
  (i32.store8 (i32.const 256) (i32.const 1))
  (i32.store (i32.const 264) (i32.const 3000))
  (i32.store (i32.const 268) (i32.const 7))
  (call $room (i32.const 5400000))
  (memory.fill (i32.const 65536) (i32.const 0x78) (i32.const 5242880))
  (i32.store (i32.const 284) (i32.const 65536))
  (i32.store (i32.const 288) (i32.const 5242880))
  (i32.const 256))
(data (i32.const 3000) "my.code")
