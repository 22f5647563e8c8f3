;; Fails with U+0000 in its message.
;; verdict: failed my.code with "a\u0000b"
(func $run (result i32)
  (i32.store8 (i32.const 256) (i32.const 1))
  (i32.store (i32.const 264) (i32.const 3000))
  (i32.store (i32.const 268) (i32.const 7))
  (i32.store (i32.const 284) (i32.const 3008))
  (i32.store (i32.const 288) (i32.const 3))
  (i32.const 256))
(data (i32.const 3000) "my.code")
(data (i32.const 3008) "a\00b")
