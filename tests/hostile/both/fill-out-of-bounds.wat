;; Fills four gigabytes.
;; in workflow code: failed workflows.trap with "out of bounds memory"
;; in a body: attempts workflows.trap workflows.trap
(func $evil (memory.fill (i32.const 0) (i32.const 7) (i32.const -1)))
