;; Calls an empty place of a table.
;; in workflow code: failed workflows.trap with "uninitialized element"
;; in a body: attempts workflows.trap workflows.trap
(table 1 funcref)
(type $plain (func))
(func $evil (call_indirect (type $plain) (i32.const 0)))
