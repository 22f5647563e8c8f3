;; Returns an address beyond its memory.
;; verdict: failed workflows.trap
(func $run (result i32)
  (i32.const -16))
