;; Fails an attempt and asks for the next one in the largest number of milliseconds: in a day.
;; verdict: waiting
;; journal: 1 attempt_ended
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (memory.fill (i32.const 1536) (i32.const 0) (i32.const 128))
  (i32.store (i32.const 1540) (i32.const 1))
  (i32.store8 (i32.const 1544) (i32.const 1))
  (i32.store8 (i32.const 1600) (i32.const 2))
  (i64.store (i32.const 1608) (i64.const -1))
  (call $step-finish (i32.const 1536) (i32.const 256))
  (drop (call $next))
  (call $ok-null))
