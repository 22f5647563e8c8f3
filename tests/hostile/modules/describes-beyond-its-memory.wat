;; Describes two billion workflows.
;; verdict: refused with "describe"
(func $describe-otherwise (result i32)
  (drop (call $describe))
  (i32.store (i32.const 132) (i32.const 0x7fffffff))
  (i32.const 128))
(func $run (result i32) (call $ok-null))
