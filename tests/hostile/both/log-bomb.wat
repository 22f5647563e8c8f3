;; Logs a million lines.
;; in workflow code: succeeded null
;; in a body: succeeded null
;; budget: default
;; log: 10001 lines, the last of them "further lines"
(func $evil
  (local $n i32)
  (loop $again
    (call $log (i32.const 2) (i32.const 2096) (i32.const 6) (i32.const 0) (i32.const 0) (i32.const 0))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $n) (i32.const 1000000)))))
