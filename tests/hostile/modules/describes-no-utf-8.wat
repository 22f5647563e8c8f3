;; Describes a workflow whose name is no UTF-8.
;; verdict: refused with "utf-8"
(func $describe-otherwise (result i32)
  (drop (call $describe))
  (i32.store (i32.const 2048) (i32.const 0xff))
  (i32.const 128))
(func $run (result i32) (call $ok-null))
