;; Is a component without exports.
;; verdict: refused with "no such export"
(component)
