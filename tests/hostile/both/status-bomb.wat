;; Says a hundred thousand times where it is.
;; in workflow code: succeeded null
;; in a body: succeeded null
;; budget: default
;; status text: 1024 bytes
(func $evil
  (local $n i32)
  (loop $again
    (call $set-status (i32.const 65536) (i32.const 65536))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $n) (i32.const 100000)))))
