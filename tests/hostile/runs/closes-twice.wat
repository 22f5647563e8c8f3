;; Closes an operation again and again: it is over already.
;; verdict: succeeded null
;; journal: 1 closed
(func $run (result i32)
  (call $sleep (i64.const 60000) (i32.const 256))
  (call $close (i32.const 0) (i32.const 256))
  (call $close (i32.const 0) (i32.const 256))
  (call $close (i32.const 0) (i32.const 256))
  (call $ok-refusal))
