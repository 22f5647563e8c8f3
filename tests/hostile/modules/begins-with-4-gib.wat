;; Begins with a memory of four gigabytes.
;; verdict: refused with "bytes of memory"
(memory $vast 65536)
(func $run (result i32) (call $ok-null))
