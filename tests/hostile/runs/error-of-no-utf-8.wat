;; Fails with a message that is no UTF-8.
;; verdict: failed workflows.trap with "utf-8"
(func $run (result i32)
  (i32.store8 (i32.const 256) (i32.const 1))
  (i32.store (i32.const 284) (i32.const 3008))
  (i32.store (i32.const 288) (i32.const 3))
  (i32.const 256))
(data (i32.const 3008) "a\ffb")
