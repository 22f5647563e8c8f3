;; Has data where it has no memory.
;; verdict: refused with "out of bounds memory"
(data (i32.const 0x7fffffff) "data")
(func $run (result i32) (call $ok-null))
