;; Loops in its start function.
;; verdict: refused with "computing time"
;; budget: short
(func $spin (loop $again (br $again)))
(start $spin)
(func $run (result i32) (call $ok-null))
