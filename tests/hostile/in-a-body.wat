;; Does it in the body of step `a`; then runs step `after`, and returns the code that `a` failed with.
  (func $run (result i32)
    (local $kind i32)
    (local $failed i32)
    (drop (call $begin (i32.const 2072) (i32.const 1)))
    (loop $again
      (local.set $kind (call $next))
      (if (i32.eqz (local.get $kind)) (then (call $evil) (call $finish)))
      (br_if $again (i32.lt_u (local.get $kind) (i32.const 3))))
    (local.set $failed (i32.eq (local.get $kind) (i32.const 4)))
    (if (local.get $failed) (then (drop (call $ok-failure))))
    ;; The result at 8192 outlives the next event.
    (global.set $kept-length (i32.load (i32.const 268)))
    (drop (call $begin (i32.const 2080) (i32.const 5)))
    (drop (call $until-told))
    (if (local.get $failed) (then (return (call $ok (i32.const 8192) (global.get $kept-length)))))
    (call $ok-null))
  (global $kept-length (mut i32) (i32.const 0))
