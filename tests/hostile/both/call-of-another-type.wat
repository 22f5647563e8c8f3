;; Calls a function by another type than its own.
;; in workflow code: failed workflows.trap with "indirect call type mismatch"
;; in a body: attempts workflows.trap workflows.trap
(table 1 funcref)
(elem (i32.const 0) $next)
(type $plain (func))
(func $evil (call_indirect (type $plain) (i32.const 0)))
