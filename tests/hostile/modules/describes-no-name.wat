;; Describes a workflow without a name.
;; verdict: refused with "the workflow name"
(func $describe-otherwise (result i32)
  (drop (call $describe))
  (i32.store (i32.const 8004) (i32.const 0))
  (i32.const 128))
(func $run (result i32) (call $ok-null))
