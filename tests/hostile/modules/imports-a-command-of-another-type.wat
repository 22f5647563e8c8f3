;; Imports a command with too few parameters.
;; verdict: refused with "type mismatch"
(import "stepwell:workflow/commands@0.1.0" "sleep" (func $sleep-badly (param i32)))
(func $run (result i32) (call $ok-null))
