;; Traps in `describe`.
;; verdict: refused with "unreachable"
(func $describe-otherwise (result i32) (unreachable))
(func $run (result i32) (call $ok-null))
