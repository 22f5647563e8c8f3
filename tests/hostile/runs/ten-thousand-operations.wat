;; Opens sleeps until one is refused, and then hears of all of them.
;; verdict: succeeded "workflows.too_many_operations"
;; budget: default
;; journal: 10000 sleep_begun
;; journal: 10000 delivered
(func $run (result i32)
  (local $open i32)
  (loop $again
    (call $sleep (i64.const 0) (i32.const 256))
    (if (i32.eqz (i32.load8_u (i32.const 256)))
      (then
        (local.set $open (i32.add (local.get $open) (i32.const 1)))
        (br $again))))
  (if (i32.ne (local.get $open) (i32.const 10000)) (then (unreachable)))
  (drop (call $ok-refusal))
  (global.set $length (i32.load (i32.const 268)))
  (loop $again
    (if (i32.ne (call $next) (i32.const 3)) (then (unreachable)))
    (local.set $open (i32.sub (local.get $open) (i32.const 1)))
    (br_if $again (local.get $open)))
  (call $ok (i32.const 8192) (global.get $length)))
(global $length (mut i32) (i32.const 0))
