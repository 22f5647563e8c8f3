;; Has a memory that threads share.
;; verdict: refused with "thread"
(memory $ours 1 1 shared)
(func $run (result i32) (call $ok-null))
