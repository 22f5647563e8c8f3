;; Gives up.
;; in workflow code: failed workflows.trap with "unreachable"
;; in a body: attempts workflows.trap workflows.trap
(func $evil (unreachable))
