;; Takes memory for ever in its start function.
;; verdict: refused with "bytes of memory"
(func $grow (loop $again (drop (memory.grow (i32.const 1))) (br $again)))
(start $grow)
(func $run (result i32) (call $ok-null))
