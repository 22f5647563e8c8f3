;; Fails with a chain of two billion causes.
;; verdict: failed workflows.trap
(func $run (result i32)
  (i32.store8 (i32.const 256) (i32.const 1))
  (i32.store (i32.const 304) (i32.const 65536))
  (i32.store (i32.const 308) (i32.const 0x7fffffff))
  (i32.const 256))
