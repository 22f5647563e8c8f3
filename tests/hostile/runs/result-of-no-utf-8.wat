;; Returns bytes that are no UTF-8.
;; verdict: failed workflows.trap with "utf-8"
(func $run (result i32)
  (i32.store (i32.const 65536) (i32.const 0x22c0ff22))
  (call $ok (i32.const 65536) (i32.const 4)))
