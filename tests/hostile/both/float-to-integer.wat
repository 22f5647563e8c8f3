;; Makes an integer of what is no number.
;; in workflow code: failed workflows.trap with "integer"
;; in a body: attempts workflows.trap workflows.trap
(func $evil (drop (i32.trunc_f64_s (f64.const nan:0x8000000000001))))
