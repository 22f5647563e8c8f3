;; Throws exceptions.
;; verdict: refused with "exceptions"
(tag $oops)
(func $throws (throw $oops))
(func $run (result i32) (call $ok-null))
