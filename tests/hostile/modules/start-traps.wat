;; Traps in its start function.
;; verdict: refused with "unreachable"
(func $dead (unreachable))
(start $dead)
(func $run (result i32) (call $ok-null))
