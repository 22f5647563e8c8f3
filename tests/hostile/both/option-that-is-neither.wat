;; Gives an option that is neither there nor not.
;; in workflow code: failed workflows.trap
;; in a body: attempts workflows.trap workflows.trap
(func $evil (call $log (i32.const 0) (i32.const 2096) (i32.const 6) (i32.const 7) (i32.const 0) (i32.const 0)))
