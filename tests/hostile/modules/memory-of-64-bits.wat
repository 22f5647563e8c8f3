;; Has a memory of 64 bits.
;; verdict: refused with "memory64"
(memory $wide i64 1)
(func $run (result i32) (call $ok-null))
