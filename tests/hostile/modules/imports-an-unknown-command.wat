;; Imports a command that the contract does not have.
;; verdict: refused with "steal"
(import "stepwell:workflow/commands@0.1.0" "steal" (func $steal))
(func $run (result i32) (call $ok-null))
