;; Sleeps ten years, which is allowed.
;; verdict: waiting
;; journal: 1 sleep_begun
(func $run (result i32)
  (call $sleep (i64.const 315576000000) (i32.const 256))
  (drop (call $next))
  (call $ok-null))
