;; What the guests of this folder share: the contract's imports, memory, and a few words to speak with. Each guest is a file of
;; its own that is put after this; its first lines say what it does and what is to come of it.
;;
;; Memory: 128 the answer of `describe`, 256 the answer of a command and the result of `run`, 512 the event, 1024 the arguments of
;; `step-begin`, 1536 those of `step-finish` and `http-send`, 2048 texts, 8192 for the guest itself, 65536 the heap.
  (import "stepwell:workflow/commands@0.1.0" "step-begin" (func $step-begin (param i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "sleep" (func $sleep (param i64 i32)))
  (import "stepwell:workflow/commands@0.1.0" "wait-event" (func $wait-event (param i32 i32 i32 i64 i32)))
  (import "stepwell:workflow/commands@0.1.0" "start-run"
    (func $start-run (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "send-event" (func $send-event (param i32 i32 i32 i32 i32 i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "close" (func $close (param i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "continue-as-new" (func $continue-as-new (param i32 i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "step-finish" (func $step-finish (param i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "http-send" (func $http-send (param i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "delay" (func $delay (param i32 i32 i64 i32)))
  (import "stepwell:workflow/commands@0.1.0" "now-ms" (func $now-ms (result i64)))
  (import "stepwell:workflow/commands@0.1.0" "random-u64" (func $random-u64 (result i64)))
  (import "stepwell:workflow/commands@0.1.0" "log" (func $log (param i32 i32 i32 i32 i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "set-status" (func $set-status (param i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "run-id" (func $run-id (param i32)))
  (import "stepwell:workflow/blocking-turns@0.1.0" "next" (func $blocking-next (param i32)))

  (memory (export "memory") 4)
  (global $heap (mut i32) (i32.const 65536))
  (data (i32.const 2048) "main")
  (data (i32.const 2056) "null")
  (data (i32.const 2064) "1")
  (data (i32.const 2072) "a")
  (data (i32.const 2076) "b")
  (data (i32.const 2080) "after")
  (data (i32.const 2088) "nul")
  (data (i32.const 2096) "a line")
  (data (i32.const 2104) "POST")
  (data (i32.const 2112) "http://127.0.0.1:9/")

  ;; The host's way to put values into this memory.
  (func $realloc (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
    (call $room (i32.add (global.get $heap) (local.get $size)))
    (global.get $heap)
    (global.set $heap (i32.add (global.get $heap) (local.get $size))))

  ;; Makes sure that memory goes up to this address.
  (func $room (param $end i32)
    (local $pages i32)
    (local.set $pages (i32.add (i32.shr_u (local.get $end) (i32.const 16)) (i32.const 1)))
    (if (i32.gt_u (local.get $pages) (memory.size))
      (then (drop (memory.grow (i32.sub (local.get $pages) (memory.size)))))))

  ;; Describes one workflow, `main`, with all defaults.
  (func $describe (result i32)
    (i32.store (i32.const 8000) (i32.const 2048))
    (i32.store (i32.const 8004) (i32.const 4))
    (i32.store (i32.const 128) (i32.const 8000))
    (i32.store (i32.const 132) (i32.const 1))
    (i32.const 128))

  ;; Begins a step with that name, two attempts, no delay between them, and all else by default. Answers 0, or 1 for a refusal.
  (func $begin (param $name i32) (param $length i32) (result i32)
    (i32.store (i32.const 1024) (local.get $name))
    (i32.store (i32.const 1028) (local.get $length))
    (i32.store8 (i32.const 1032) (i32.const 1))
    (i32.store (i32.const 1036) (i32.const 2))
    (i32.store8 (i32.const 1040) (i32.const 1))
    (call $step-begin (i32.const 1024) (i32.const 256))
    (i32.load8_u (i32.const 256)))

  ;; The number of the operation that has just begun.
  (func $operation (result i32)
    (i32.load (i32.const 264)))

  ;; Waits for an event and answers its kind: 0 attempt, 1 expired, 2 answered, 3 completed, 4 failed, 5 cancelled.
  (func $next (result i32)
    (call $blocking-next (i32.const 512))
    (i32.load8_u (i32.const 512)))

  ;; Finishes the attempt with a text as its result. Answers 0, or 1 for a refusal.
  (func $finish-of (param $operation i32) (param $number i32) (param $text i32) (param $length i32) (result i32)
    (memory.fill (i32.const 1536) (i32.const 0) (i32.const 128))
    (i32.store (i32.const 1536) (local.get $operation))
    (i32.store (i32.const 1540) (local.get $number))
    (i32.store (i32.const 1552) (local.get $text))
    (i32.store (i32.const 1556) (local.get $length))
    (call $step-finish (i32.const 1536) (i32.const 256))
    (i32.load8_u (i32.const 256)))

  ;; Finishes the attempt of the event at 512.
  (func $finish-with (param $text i32) (param $length i32) (result i32)
    (call $finish-of (i32.load (i32.const 520)) (i32.load (i32.const 524)) (local.get $text) (local.get $length)))

  (func $finish
    (drop (call $finish-with (i32.const 2064) (i32.const 1))))

  ;; A result of `run` that is this JSON.
  (func $ok (param $text i32) (param $length i32) (result i32)
    (memory.fill (i32.const 256) (i32.const 0) (i32.const 80))
    (i32.store (i32.const 264) (local.get $text))
    (i32.store (i32.const 268) (local.get $length))
    (i32.const 256))

  (func $ok-null (result i32)
    (call $ok (i32.const 2056) (i32.const 4)))

  ;; The value of the completed operation at 512.
  (func $ok-value (result i32)
    (call $ok (i32.load (i32.const 524)) (i32.load (i32.const 528))))

  ;; A text as a JSON string. It needs no escapes.
  (func $ok-string (param $text i32) (param $length i32) (result i32)
    (i32.store8 (i32.const 8192) (i32.const 0x22))
    (memory.copy (i32.const 8193) (local.get $text) (local.get $length))
    (i32.store8 (i32.add (i32.const 8193) (local.get $length)) (i32.const 0x22))
    (call $ok (i32.const 8192) (i32.add (local.get $length) (i32.const 2))))

  ;; The code of the refusal at 256; `null` where there is none.
  (func $ok-refusal (result i32)
    (if (i32.eqz (i32.load8_u (i32.const 256))) (then (return (call $ok-null))))
    (call $ok-string (i32.load (i32.const 264)) (i32.load (i32.const 268))))

  ;; The code of the failed operation at 512.
  (func $ok-failure (result i32)
    (call $ok-string (i32.load (i32.const 528)) (i32.load (i32.const 532))))

  ;; A number below ten.
  (func $ok-digit (param $n i32) (result i32)
    (i32.store8 (i32.const 8192) (i32.add (local.get $n) (i32.const 0x30)))
    (call $ok (i32.const 8192) (i32.const 1)))

  ;; Lets attempts end well until an operation is told of. Answers whether it completed.
  (func $until-told (result i32)
    (local $kind i32)
    (loop $again
      (local.set $kind (call $next))
      (if (i32.eqz (local.get $kind)) (then (call $finish)))
      (br_if $again (i32.lt_u (local.get $kind) (i32.const 3))))
    (i32.eq (local.get $kind) (i32.const 3)))
