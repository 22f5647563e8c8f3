;; Fails with no code and no message.
;; verdict: failed workflows.workflow_failed or workflows.step_failed
(func $run (result i32)
  (i32.store8 (i32.const 256) (i32.const 1))
  (i32.const 256))
