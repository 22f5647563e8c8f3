;; Imports a function of nobody.
;; verdict: refused with "env"
(import "env" "steal" (func $steal))
(func $run (result i32) (call $ok-null))
