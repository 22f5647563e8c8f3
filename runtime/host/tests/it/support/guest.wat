;; What every guest of these tests has: the contract's imports, memory, and a few words to speak with.
;; `{body}` is the test's own part; it defines `$run`, which answers the address of its result.
  (import "stepwell:workflow/commands@0.1.0" "step-begin" (func $step-begin (param i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "step-finish" (func $step-finish (param i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "continue-as-new" (func $continue-as-new (param i32 i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "set-status" (func $set-status (param i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "now-ms" (func $now-ms (result i64)))
  (import "stepwell:workflow/blocking-turns@0.1.0" "next" (func $blocking-next (param i32)))

  (memory (export "memory") 4)
  (global $heap (mut i32) (i32.const 16384))
  (data (i32.const 2048) "a")
  (data (i32.const 2064) "1")
  (data (i32.const 2080) "nul")
  (data (i32.const 2096) "null")
  (data (i32.const 2112) "reached")

  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
    (global.get $heap)
    (global.set $heap (i32.add (global.get $heap) (local.get 3))))

  ;; Begins a step named `a` with no options and answers its number.
  (func $begin (result i32)
    (i32.store (i32.const 1024) (i32.const 2048))
    (i32.store (i32.const 1028) (i32.const 1))
    (call $step-begin (i32.const 1024) (i32.const 256))
    (i32.load (i32.const 264)))

  ;; Waits for an event and answers its kind. The event is at 512.
  (func $next (result i32)
    (call $blocking-next (i32.const 512))
    (i32.load8_u (i32.const 512)))

  ;; Finishes the attempt at 512 with a text and answers 0, or 1 for a refusal.
  (func $finish-with (param $text i32) (param $length i32) (result i32)
    (i32.store (i32.const 1536) (i32.load (i32.const 520)))
    (i32.store (i32.const 1540) (i32.load (i32.const 524)))
    (i32.store (i32.const 1552) (local.get $text))
    (i32.store (i32.const 1556) (local.get $length))
    (call $step-finish (i32.const 1536) (i32.const 256))
    (i32.load8_u (i32.const 256)))

  ;; Finishes it with `1`.
  (func $finish
    (drop (call $finish-with (i32.const 2064) (i32.const 1))))

  ;; A result that is this text.
  (func $ok (param $text i32) (param $length i32) (result i32)
    (i32.store (i32.const 256) (i32.const 0))
    (i32.store (i32.const 264) (local.get $text))
    (i32.store (i32.const 268) (local.get $length))
    (i32.const 256))

  ;; A result that is the value of the completed operation at 512.
  (func $ok-value (result i32)
    (call $ok (i32.load (i32.const 524)) (i32.load (i32.const 528))))

  ;; A result that is `null`.
  (func $ok-null (result i32)
    (call $ok (i32.const 2096) (i32.const 4)))

  ;; Sets the status to `reached`.
  (func $reached
    (call $set-status (i32.const 2112) (i32.const 7)))
