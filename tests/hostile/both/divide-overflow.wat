;; Divides the smallest number by -1.
;; in workflow code: failed workflows.trap with "overflow"
;; in a body: attempts workflows.trap workflows.trap
(func $evil (drop (i32.div_s (i32.const 0x80000000) (i32.const -1))))
