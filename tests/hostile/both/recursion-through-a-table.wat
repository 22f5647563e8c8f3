;; Calls itself for ever, through a table.
;; in workflow code: failed workflows.stack_overflow with "call stack exhausted"
;; in a body: attempts workflows.stack_overflow workflows.stack_overflow
(table 1 funcref)
(elem (i32.const 0) $evil)
(type $plain (func))
(func $evil (call_indirect (type $plain) (i32.const 0)) (drop (memory.size)))
