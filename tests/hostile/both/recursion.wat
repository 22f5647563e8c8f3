;; Calls itself for ever.
;; in workflow code: failed workflows.stack_overflow with "call stack exhausted"
;; in a body: attempts workflows.stack_overflow workflows.stack_overflow
(func $evil (call $evil) (call $evil))
