;; Is a component that imports a file system of another version.
;; verdict: refused with "version 0.3.0 of WASI"
(component (import "wasi:filesystem/types@0.3.0" (instance)))
