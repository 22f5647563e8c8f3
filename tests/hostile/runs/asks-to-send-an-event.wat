;; Sends an event to another run, which this version does not offer.
;; verdict: failed workflows.unsupported
(func $run (result i32)
  (call $send-event (i32.const 2048) (i32.const 4) (i32.const 2072) (i32.const 1) (i32.const 2056) (i32.const 4) (i32.const 256))
  (i32.const 256))
