;; Sends a request of an operation that there is not.
;; verdict: failed workflows.unknown_operation
;; journal: 0 dispatched
(func $run (result i32)
  (i32.store (i32.const 1536) (i32.const 0))
  (i32.store (i32.const 1540) (i32.const 1))
  (i32.store (i32.const 1544) (i32.const 2104))
  (i32.store (i32.const 1548) (i32.const 4))
  (i32.store (i32.const 1552) (i32.const 2112))
  (i32.store (i32.const 1556) (i32.const 19))
  (call $http-send (i32.const 1536) (i32.const 256))
  (i32.const 256))
