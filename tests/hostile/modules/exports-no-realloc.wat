;; Has no way to be given a text.
;; verdict: refused with "cabi_realloc"
(module
  (memory (export "memory") 1)
  (func (export "stepwell:workflow/workflows@0.1.0#run") (param i32 i32 i32 i32) (result i32) (unreachable))
  (func (export "stepwell:workflow/workflows@0.1.0#describe") (result i32) (i32.const 128))
)
