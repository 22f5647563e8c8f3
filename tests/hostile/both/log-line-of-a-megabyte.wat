;; Logs a line of a megabyte: it is cut.
;; in workflow code: succeeded null
;; in a body: succeeded null
;; longest line: 65536 bytes
;; log: 1 lines, the last of them "xxx"
(func $evil
  (call $room (i32.const 1200000))
  (memory.fill (i32.const 65536) (i32.const 0x78) (i32.const 1048576))
  (call $log (i32.const 2) (i32.const 65536) (i32.const 1048576) (i32.const 0) (i32.const 0) (i32.const 0)))
