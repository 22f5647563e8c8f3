;; Exports a `run` that takes nothing.
;; verdict: refused with "type mismatch"
(module
  (memory (export "memory") 1)
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (unreachable))
  (func (export "stepwell:workflow/workflows@0.1.0#describe") (result i32) (i32.const 128))
  (func (export "stepwell:workflow/workflows@0.1.0#run") (result i32) (unreachable)))
