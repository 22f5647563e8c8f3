;; Reads beyond its memory.
;; in workflow code: failed workflows.trap with "out of bounds memory"
;; in a body: attempts workflows.trap workflows.trap
(func $evil (drop (i64.load (i32.const -8))))
