;; Opens a thousand delays in one attempt, and one more.
;; verdict: failed workflows.too_many_operations with "1000"
(func $run (result i32)
  (local $n i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (loop $again
    (call $delay (i32.const 0) (i32.const 1) (i64.const 60000) (i32.const 256))
    (if (i32.eqz (i32.load8_u (i32.const 256)))
      (then
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br $again))))
  (if (i32.ne (local.get $n) (i32.const 1000)) (then (unreachable)))
  (i32.const 256))
