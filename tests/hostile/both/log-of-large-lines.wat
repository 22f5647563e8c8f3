;; Logs a thousand lines of 64 KiB.
;; in workflow code: succeeded null
;; in a body: succeeded null
;; budget: default
;; log: 17 lines, the last of them "further lines"
(func $evil
  (local $n i32)
  (memory.fill (i32.const 65536) (i32.const 0x78) (i32.const 65536))
  (loop $again
    (call $log (i32.const 2) (i32.const 65536) (i32.const 65536) (i32.const 0) (i32.const 0) (i32.const 0))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $n) (i32.const 1000)))))
