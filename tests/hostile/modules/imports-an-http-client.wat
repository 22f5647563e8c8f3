;; Is a component that imports an HTTP client.
;; verdict: refused with "`http-send`"
(component (import "wasi:http/outgoing-handler@0.2.3" (instance)))
