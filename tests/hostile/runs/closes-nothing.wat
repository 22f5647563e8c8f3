;; Closes an operation that there is not.
;; verdict: succeeded "workflows.unknown_operation"
(func $run (result i32)
  (call $close (i32.const 0) (i32.const 256))
  (call $ok-refusal))
