;; Begins with a table of ten million elements.
;; verdict: refused with "table elements"
(table 10000000 funcref)
(func $run (result i32) (call $ok-null))
