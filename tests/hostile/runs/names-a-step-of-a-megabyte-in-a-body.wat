;; Begins a step in a body, by a name of a megabyte: the refusal is short.
;; verdict: failed workflows.operation_inside_step
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (call $room (i32.const 1200000))
  (memory.fill (i32.const 65536) (i32.const 1) (i32.const 1048576))
  (global.set $heap (i32.const 1200000))
  (drop (call $begin (i32.const 65536) (i32.const 1048576)))
  (if (i32.gt_u (i32.load (i32.const 288)) (i32.const 1000)) (then (unreachable)))
  (i32.const 256))
