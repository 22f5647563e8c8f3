;; Gives a command in its start function, before there is anybody to take it.
;; verdict: refused with "describe"
(func $early (call $sleep (i64.const 1) (i32.const 256)))
(start $early)
(func $run (result i32) (call $ok-null))
