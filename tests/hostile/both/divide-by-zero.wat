;; Divides by zero.
;; in workflow code: failed workflows.trap with "divide by zero"
;; in a body: attempts workflows.trap workflows.trap
(func $evil (drop (i32.div_u (i32.const 1) (i32.const 0))))
