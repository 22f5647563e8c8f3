;; Gives the host room beyond its memory.
;; verdict: failed workflows.trap
(module
  (import "stepwell:workflow/commands@0.1.0" "wait-event" (func $wait-event (param i32 i32 i32 i64 i32)))
  (memory (export "memory") 1)
  (data (i32.const 2048) "main")
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const -16))
  (func (export "stepwell:workflow/workflows@0.1.0#run") (param i32 i32 i32 i32) (result i32) (unreachable))
  (func (export "stepwell:workflow/workflows@0.1.0#describe") (result i32)
    (i32.store (i32.const 8000) (i32.const 2048))
    (i32.store (i32.const 8004) (i32.const 4))
    (i32.store (i32.const 128) (i32.const 8000))
    (i32.store (i32.const 132) (i32.const 1))
    (i32.const 128)))
