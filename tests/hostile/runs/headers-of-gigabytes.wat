;; Sends a request with ten thousand headers, each of them the same 64 KiB.
;; verdict: succeeded "workflows.trap"
;; body: in-a-body
;; journal: 0 dispatched
(func $evil
  (local $at i32)
  (call $room (i32.const 400000))
  (memory.fill (i32.const 65536) (i32.const 0x78) (i32.const 65536))
  (local.set $at (i32.const 200000))
  (loop $again
    (i32.store offset=0 (local.get $at) (i32.const 65536))
    (i32.store offset=4 (local.get $at) (i32.const 65536))
    (i32.store offset=8 (local.get $at) (i32.const 65536))
    (i32.store offset=12 (local.get $at) (i32.const 65536))
    (local.set $at (i32.add (local.get $at) (i32.const 16)))
    (br_if $again (i32.lt_u (local.get $at) (i32.const 360000))))
  (i32.store (i32.const 1536) (i32.const 0))
  (i32.store (i32.const 1540) (i32.const 1))
  (i32.store (i32.const 1544) (i32.const 2104))
  (i32.store (i32.const 1548) (i32.const 4))
  (i32.store (i32.const 1552) (i32.const 2112))
  (i32.store (i32.const 1556) (i32.const 19))
  (i32.store (i32.const 1560) (i32.const 200000))
  (i32.store (i32.const 1564) (i32.const 10000))
  (call $http-send (i32.const 1536) (i32.const 256)))
