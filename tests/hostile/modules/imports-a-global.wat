;; Imports a global of nobody.
;; verdict: refused with "env"
(import "env" "theirs" (global $theirs i32))
(func $run (result i32) (i32.store (i32.const 4000) (global.get $theirs)) (call $ok-null))
