;; Fails with details that are no JSON: they are left out.
;; verdict: failed my.code with "were no JSON"
(func $run (result i32)
  (i32.store8 (i32.const 256) (i32.const 1))
  (i32.store (i32.const 264) (i32.const 3000))
  (i32.store (i32.const 268) (i32.const 7))
  (i32.store8 (i32.const 292) (i32.const 1))
  (i32.store (i32.const 296) (i32.const 2088))
  (i32.store (i32.const 300) (i32.const 3))
  (i32.const 256))
(data (i32.const 3000) "my.code")
