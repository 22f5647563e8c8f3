;; Describes 1,001 workflows.
;; verdict: refused with "has 1001 workflows; it may have 1000"
(func $describe-otherwise (result i32)
  (drop (call $describe))
  (call $room (i32.const 209680))
  (i32.store (i32.const 128) (i32.const 65536))
  (i32.store (i32.const 132) (i32.const 1001))
  (i32.const 128))
(func $run (result i32) (call $ok-null))
