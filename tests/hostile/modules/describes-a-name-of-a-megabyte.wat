;; Describes a workflow with a name of a megabyte.
;; verdict: refused with "the workflow name"
(func $describe-otherwise (result i32)
  (drop (call $describe))
  (call $room (i32.const 1200000))
  (i32.store (i32.const 8000) (i32.const 65536))
  (i32.store (i32.const 8004) (i32.const 1048576))
  (i32.const 128))
(func $run (result i32) (call $ok-null))
