;; Sends requests of four megabytes until one is refused: sixteen are open.
;; verdict: failed workflows.too_many_operations with "67108864"
;; budget: default
;; journal: 16 dispatched
(func $run (result i32)
  (local $n i32)
  (call $room (i32.const 4300000))
  (global.set $heap (i32.const 4300000))
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (drop (call $next))
  (i32.store (i32.const 1536) (i32.const 0))
  (i32.store (i32.const 1540) (i32.const 1))
  (i32.store (i32.const 1544) (i32.const 2104))
  (i32.store (i32.const 1548) (i32.const 4))
  (i32.store (i32.const 1552) (i32.const 2112))
  (i32.store (i32.const 1556) (i32.const 19))
  (i32.store8 (i32.const 1568) (i32.const 1))
  (i32.store (i32.const 1572) (i32.const 65536))
  (i32.store (i32.const 1576) (i32.const 4194304))
  (loop $again
    (call $http-send (i32.const 1536) (i32.const 256))
    (if (i32.eqz (i32.load8_u (i32.const 256)))
      (then
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br $again))))
  (if (i32.ne (local.get $n) (i32.const 16)) (then (unreachable)))
  (i32.const 256))
