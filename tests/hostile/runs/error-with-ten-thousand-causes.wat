;; Fails with a chain of ten thousand causes: sixteen are kept.
;; verdict: failed my.code
;; causes: 16
(func $run (result i32)
  (i32.store8 (i32.const 256) (i32.const 1))
  (i32.store (i32.const 264) (i32.const 3000))
  (i32.store (i32.const 268) (i32.const 7))
  (call $room (i32.const 400000))
  (i32.store (i32.const 304) (i32.const 100000))
  (i32.store (i32.const 308) (i32.const 10000))
  (i32.const 256))
(data (i32.const 3000) "my.code")
