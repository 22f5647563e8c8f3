;; Starts a child run of a workflow whose name has no bytes.
;; verdict: failed workflows.invalid_argument
;; journal: 0 child_begun
(func $run (result i32)
  (call $start-run (i32.const 2048) (i32.const 0) (i32.const 2056) (i32.const 4)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))
  (i32.const 256))
