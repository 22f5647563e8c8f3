;; Closes what is not there, for ever.
;; in workflow code: failed workflows.turn_timeout with "computing time"
;; in a body: attempts workflows.turn_timeout workflows.turn_timeout
(func $evil (loop $again (call $close (i32.const 77) (i32.const 256)) (br $again)))
