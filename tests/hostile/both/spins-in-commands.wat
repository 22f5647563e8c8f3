;; Asks for the time, for ever.
;; in workflow code: failed workflows.turn_timeout with "computing time"
;; in a body: attempts workflows.turn_timeout workflows.turn_timeout
(func $evil (loop $again (drop (call $now-ms)) (br $again)))
