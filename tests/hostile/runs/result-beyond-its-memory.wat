;; Returns a text that is not in its memory.
;; verdict: failed workflows.trap
(func $run (result i32)
  (call $ok (i32.const -16) (i32.const 8)))
