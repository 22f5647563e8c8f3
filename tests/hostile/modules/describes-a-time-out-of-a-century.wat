;; Describes a workflow that may be open for a century.
;; verdict: refused with "runTimeoutMs"
(func $describe-otherwise (result i32)
  (i32.store8 (i32.const 8096) (i32.const 1))
  (i64.store (i32.const 8104) (i64.const 3155760000000))
  (call $describe))
(func $run (result i32) (call $ok-null))
