;; Begins a step whose name is 200 bytes, which is allowed.
;; verdict: succeeded null
;; journal: 1 step_begun
(global $n i32 (i32.const 200))
(func $run (result i32)
  (memory.fill (i32.const 65536) (i32.const 120) (global.get $n))
  (drop (call $begin (i32.const 65536) (global.get $n)))
  (call $ok-refusal))
