;; Describes no workflow.
;; verdict: refused with "no workflow"
(func $describe-otherwise (result i32)
  (i32.store (i32.const 132) (i32.const 0))
  (i32.const 128))
(func $run (result i32) (call $ok-null))
