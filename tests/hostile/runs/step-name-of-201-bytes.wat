;; Begins a step whose name is 201 bytes.
;; verdict: failed workflows.invalid_argument
;; journal: 0 step_begun
(global $n i32 (i32.const 201))
(func $run (result i32)
  (memory.fill (i32.const 65536) (i32.const 120) (global.get $n))
  (drop (call $begin (i32.const 65536) (global.get $n)))
  (i32.const 256))
