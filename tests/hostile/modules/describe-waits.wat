;; Waits for an event in `describe`.
;; verdict: refused with "it waits, and nothing will come"
(func $describe-otherwise (result i32) (drop (call $next)) (call $describe))
(func $run (result i32) (call $ok-null))
