;; Describes a workflow that talks to ten thousand hosts.
;; verdict: refused with "declares 10000 destinations; it may declare 1000"
(func $describe-otherwise (result i32)
  (i32.store (i32.const 8124) (i32.const 65536))
  (i32.store (i32.const 8128) (i32.const 10000))
  (call $describe))
(func $run (result i32) (call $ok-null))
