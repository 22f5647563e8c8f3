;; Describes a hundred thousand workflows.
;; verdict: refused with "workflows; it may have 1000"
(func $describe-otherwise (result i32)
  (drop (call $describe))
  (call $room (i32.const 14465536))
  (i32.store (i32.const 128) (i32.const 65536))
  (i32.store (i32.const 132) (i32.const 100000))
  (i32.const 128))
(func $run (result i32) (call $ok-null))
