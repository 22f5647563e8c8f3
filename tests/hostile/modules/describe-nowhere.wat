;; Answers `describe` with an address beyond its memory.
;; verdict: refused with "describe"
(func $describe-otherwise (result i32) (i32.const -16))
(func $run (result i32) (call $ok-null))
