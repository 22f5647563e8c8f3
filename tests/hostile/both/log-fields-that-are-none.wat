;; Logs data that is no JSON.
;; in workflow code: succeeded null
;; in a body: succeeded null
;; log: 1 lines, the last of them "were no JSON"
(func $evil
  (call $log (i32.const 2) (i32.const 2096) (i32.const 6) (i32.const 1) (i32.const 2088) (i32.const 3)))
