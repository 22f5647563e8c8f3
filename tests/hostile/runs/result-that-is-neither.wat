;; Returns what is neither a value nor an error.
;; verdict: failed workflows.trap
(func $run (result i32)
  (i32.store8 (i32.const 256) (i32.const 2))
  (i32.const 256))
