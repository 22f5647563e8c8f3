;; Has a body that delays by nothing over and over, in a step of 50 ms.
;; verdict: succeeded "workflows.step_timeout"
(func $run (result i32)
  (local $kind i32)
  (i32.store (i32.const 1024) (i32.const 2072))
  (i32.store (i32.const 1028) (i32.const 1))
  (i32.store8 (i32.const 1032) (i32.const 1))
  (i32.store (i32.const 1036) (i32.const 1))
  (i32.store8 (i32.const 1104) (i32.const 1))
  (i64.store (i32.const 1112) (i64.const 50))
  (call $step-begin (i32.const 1024) (i32.const 256))
  (loop $again
    (local.set $kind (call $next))
    (call $delay (i32.const 0) (i32.const 1) (i64.const 0) (i32.const 256))
    (br_if $again (i32.lt_u (local.get $kind) (i32.const 3))))
  (call $ok-failure))
