;; Is a component of a contract that is to come.
;; verdict: refused with "version 7.0.0 of the contract"
(component (import "stepwell:workflow/commands@7.0.0" (instance)))
