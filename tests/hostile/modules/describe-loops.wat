;; Loops in `describe`.
;; verdict: refused with "computing time"
;; budget: short
(func $describe-otherwise (result i32) (loop $again (br $again)) (unreachable))
(func $run (result i32) (call $ok-null))
