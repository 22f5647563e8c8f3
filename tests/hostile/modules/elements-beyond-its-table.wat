;; Has elements where it has no table.
;; verdict: refused with "out of bounds table"
(table 1 funcref)
(elem (i32.const 1000) $next)
(func $run (result i32) (call $ok-null))
