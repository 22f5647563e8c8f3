;; Writes beyond its memory.
;; in workflow code: failed workflows.trap with "out of bounds memory"
;; in a body: attempts workflows.trap workflows.trap
(func $evil (i32.store offset=4294967295 (i32.const -1) (i32.const 7)))
