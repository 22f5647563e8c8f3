;; Sends an event to a run whose name has no bytes.
;; verdict: failed workflows.invalid_argument
;; journal: 0 send_begun
(func $run (result i32)
  (call $send-event (i32.const 2048) (i32.const 0) (i32.const 2072) (i32.const 1) (i32.const 2056) (i32.const 4) (i32.const 256))
  (i32.const 256))
