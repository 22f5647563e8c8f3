;; Logs at a level that there is not.
;; in workflow code: failed workflows.trap
;; in a body: attempts workflows.trap workflows.trap
(func $evil (call $log (i32.const 99) (i32.const 2096) (i32.const 6) (i32.const 0) (i32.const 0) (i32.const 0)))
