;; A guest of version 0.1.0 of the contract. It uses every command and both ways to take an event; `../README.md` says what it is for.
;;
;; Workflows: `main` (a step, ten minutes of sleep, a step, its result), `child` (a step, its result), `again` (goes on in a fresh run,
;; once), `turns` (as `child`, with the event loop's `next`) and `all` (all the rest; its input is a URL as a JSON string).
;;
;; Memory: 128 the answer of `describe`, 256 the answer of a command and the result of `run`, 512 the event, 1024 the arguments of
;; `step-begin`, 1536 those of `step-finish` and `http-send`, 2048 texts, 4096 the workflows, 65536 the heap.
(module
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
  (import "stepwell:workflow/turns@0.1.0" "[async-lower]next" (func $async-next (param i32) (result i32)))
  (import "$root" "[waitable-set-new]" (func $waitable-set-new (result i32)))
  (import "$root" "[waitable-set-wait]" (func $waitable-set-wait (param i32 i32) (result i32)))
  (import "$root" "[waitable-set-drop]" (func $waitable-set-drop (param i32)))
  (import "$root" "[waitable-join]" (func $waitable-join (param i32 i32)))
  (import "$root" "[subtask-drop]" (func $subtask-drop (param i32)))

  (memory (export "memory") 2)
  (global $heap (mut i32) (i32.const 65536))
  ;; Whether `next` is the event loop's.
  (global $loops (mut i32) (i32.const 0))
  (data (i32.const 2048) "main")
  (data (i32.const 2056) "child")
  (data (i32.const 2064) "again")
  (data (i32.const 2072) "turns")
  (data (i32.const 2080) "all")
  (data (i32.const 2088) "null")
  (data (i32.const 2096) "1")
  (data (i32.const 2100) "a")
  (data (i32.const 2104) "after")
  (data (i32.const 2112) "a line")
  (data (i32.const 2120) "POST")
  (data (i32.const 2128) "x-from")
  (data (i32.const 2136) "127.0.0.1:*")
  (data (i32.const 2152) "go")
  (data (i32.const 2160) "never")
  (data (i32.const 2168) "colour")
  (data (i32.const 2176) "red")

  (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
    (global.get $heap)
    (global.set $heap (i32.add (global.get $heap) (local.get $size))))

  (func $must (param $so i32)
    (if (i32.eqz (local.get $so)) (then (unreachable))))

  ;; What was asked for was granted.
  (func $granted
    (call $must (i32.eqz (i32.load8_u (i32.const 256)))))

  ;; The number that a command has granted.
  (func $number (result i32)
    (i32.load (i32.const 264)))

  ;; Waits for an event and answers its kind: 0 attempt, 1 expired, 2 answered, 3 completed, 4 failed, 5 cancelled.
  (func $next (result i32) (local $state i32) (local $set i32)
    (if (global.get $loops)
      (then
        (local.set $state (call $async-next (i32.const 512)))
        ;; 2: it has returned. Else the subtask's number is above the lowest four bits.
        (if (i32.ne (i32.and (local.get $state) (i32.const 15)) (i32.const 2))
          (then
            (local.set $state (i32.shr_u (local.get $state) (i32.const 4)))
            (local.set $set (call $waitable-set-new))
            (call $waitable-join (local.get $state) (local.get $set))
            (loop $again
              (drop (call $waitable-set-wait (local.get $set) (i32.const 640)))
              (br_if $again (i32.ne (i32.load (i32.const 644)) (i32.const 2))))
            (call $waitable-join (local.get $state) (i32.const 0))
            (call $subtask-drop (local.get $state))
            (call $waitable-set-drop (local.get $set)))))
      (else (call $blocking-next (i32.const 512))))
    (i32.load8_u (i32.const 512)))

  ;; Waits until this operation has completed. Attempts that are told of meanwhile end well.
  (func $completes (param $operation i32) (local $kind i32)
    (loop $again
      (local.set $kind (call $next))
      (if (i32.eqz (local.get $kind)) (then (call $finish) (br $again))))
    (call $must (i32.eq (local.get $kind) (i32.const 3)))
    (call $must (i32.eq (i32.load (i32.const 520)) (local.get $operation))))

  ;; Begins a step with that name, two attempts, no delay between them, and all else by default. Answers its number.
  (func $begin (param $name i32) (param $length i32) (result i32)
    (memory.fill (i32.const 1024) (i32.const 0) (i32.const 256))
    (i32.store (i32.const 1024) (local.get $name))
    (i32.store (i32.const 1028) (local.get $length))
    (i32.store8 (i32.const 1032) (i32.const 1))
    (i32.store (i32.const 1036) (i32.const 2))
    (i32.store8 (i32.const 1040) (i32.const 1))
    (call $step-begin (i32.const 1024) (i32.const 256))
    (call $granted)
    (call $number))

  ;; Finishes the attempt whose reference is at 1536, with `1`.
  (func $finish-kept
    (memory.fill (i32.const 1544) (i32.const 0) (i32.const 128))
    (i32.store (i32.const 1552) (i32.const 2096))
    (i32.store (i32.const 1556) (i32.const 1))
    (call $step-finish (i32.const 1536) (i32.const 256))
    (call $granted))

  ;; Keeps the reference of the attempt that has just come.
  (func $keep
    (i32.store (i32.const 1536) (i32.load (i32.const 520)))
    (i32.store (i32.const 1540) (i32.load (i32.const 524))))

  (func $finish
    (call $keep)
    (call $finish-kept))

  ;; A step that does nothing.
  (func $step (param $name i32) (param $length i32)
    (call $completes (call $begin (local.get $name) (local.get $length))))

  ;; Waits for the answer to the attempt's delay or request, which must be of this kind: 0 a response, 1 that the time is over.
  (func $answered (param $kind i32)
    (call $must (i32.eq (call $next) (i32.const 2)))
    (call $must (i32.eqz (i32.load8_u (i32.const 528))))
    (call $must (i32.eq (i32.load8_u (i32.const 536)) (local.get $kind))))

  ;; A step that waits for a moment and posts to this URL. On replay there is no attempt.
  (func $posts (param $url i32) (param $length i32) (local $operation i32)
    (local.set $operation (call $begin (i32.const 2120) (i32.const 4)))
    (if (i32.eqz (call $next))
      (then
        (call $keep)
        (call $delay (i32.load (i32.const 1536)) (i32.load (i32.const 1540)) (i64.const 1) (i32.const 256))
        (call $granted)
        (call $answered (i32.const 1))
        (memory.fill (i32.const 3072) (i32.const 0) (i32.const 256))
        (i64.store (i32.const 3072) (i64.load (i32.const 1536)))
        (i32.store (i32.const 3080) (i32.const 2120))
        (i32.store (i32.const 3084) (i32.const 4))
        (i32.store (i32.const 3088) (local.get $url))
        (i32.store (i32.const 3092) (local.get $length))
        (i32.store (i32.const 3096) (i32.const 3328))
        (i32.store (i32.const 3100) (i32.const 1))
        (i32.store8 (i32.const 3104) (i32.const 1))
        (i32.store (i32.const 3108) (i32.const 2096))
        (i32.store (i32.const 3112) (i32.const 1))
        (i32.store (i32.const 3328) (i32.const 2128))
        (i32.store (i32.const 3332) (i32.const 6))
        (i32.store (i32.const 3336) (i32.const 2080))
        (i32.store (i32.const 3340) (i32.const 3))
        (call $http-send (i32.const 3072) (i32.const 256))
        (call $granted)
        (call $answered (i32.const 0))
        (call $must (i32.eq (i32.load16_u (i32.const 540)) (i32.const 200)))
        (call $finish-kept)
        (drop (call $next))))
    (call $must (i32.eq (i32.load8_u (i32.const 512)) (i32.const 3)))
    (call $must (i32.eq (i32.load (i32.const 520)) (local.get $operation))))

  (func $all (param $url i32) (param $length i32) (local $id i32) (local $id-length i32) (local $closed i32) (local $event i32)
    (local $random i64)
    (call $set-status (i32.const 2112) (i32.const 6))
    (call $log (i32.const 2) (i32.const 2112) (i32.const 6) (i32.const 1) (i32.const 2088) (i32.const 4))
    (call $must (i64.gt_u (call $now-ms) (i64.const 1700000000000)))
    (local.set $random (call $random-u64))
    (call $must (i64.ne (local.get $random) (call $random-u64)))
    (call $posts (local.get $url) (local.get $length))
    (call $sleep (i64.const 60) (i32.const 256))
    (call $granted)
    (call $completes (call $number))
    ;; A wait that is given up. Its number is told of no more.
    (call $wait-event (i32.const 2160) (i32.const 5) (i32.const 1) (i64.const 86400000) (i32.const 256))
    (call $granted)
    (local.set $closed (call $number))
    (call $close (local.get $closed) (i32.const 256))
    (call $granted)
    ;; A child, with a tag.
    (i32.store (i32.const 3328) (i32.const 2168))
    (i32.store (i32.const 3332) (i32.const 6))
    (i32.store (i32.const 3336) (i32.const 2176))
    (i32.store (i32.const 3340) (i32.const 3))
    (call $start-run (i32.const 2056) (i32.const 5) (i32.const 2088) (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 0)
      (i32.const 0) (i32.const 0) (i32.const 3328) (i32.const 1) (i32.const 256))
    (call $granted)
    (call $completes (call $number))
    ;; An event to this run itself, and the wait for it.
    (call $run-id (i32.const 256))
    (local.set $id (i32.load (i32.const 256)))
    (local.set $id-length (i32.load (i32.const 260)))
    (call $send-event (local.get $id) (local.get $id-length) (i32.const 2160) (i32.const 5) (i32.const 2096) (i32.const 1) (i32.const 256))
    (call $granted)
    (call $completes (call $number))
    (call $wait-event (i32.const 2160) (i32.const 5) (i32.const 0) (i64.const 0) (i32.const 256))
    (call $granted)
    (call $completes (call $number))
    ;; What comes from outside.
    (call $wait-event (i32.const 2152) (i32.const 2) (i32.const 0) (i64.const 0) (i32.const 256))
    (call $granted)
    (call $completes (call $number))
    (call $step (i32.const 2104) (i32.const 5)))

  ;; A result of `run`: the value of the operation that has just completed.
  (func $value (result i32)
    (memory.fill (i32.const 256) (i32.const 0) (i32.const 128))
    (i32.store (i32.const 264) (i32.load (i32.const 524)))
    (i32.store (i32.const 268) (i32.load (i32.const 528)))
    (i32.const 256))

  (func (export "stepwell:workflow/workflows@0.1.0#run") (param $name i32) (param $name-length i32) (param $input i32) (param $length i32)
    (result i32) (local $letter i32)
    ;; The names differ in their first letter, but for the two that differ in their second.
    (local.set $letter (i32.load16_u (local.get $name)))
    (if (i32.eq (local.get $letter) (i32.load16_u (i32.const 2048)))
      (then
        (call $step (i32.const 2100) (i32.const 1))
        (call $sleep (i64.const 600000) (i32.const 256))
        (call $granted)
        (call $completes (call $number))
        (call $step (i32.const 2104) (i32.const 5))
        (return (call $value))))
    (if (i32.eq (local.get $letter) (i32.load16_u (i32.const 2064)))
      (then
        (if (i32.eq (i32.load8_u (local.get $input)) (i32.load8_u (i32.const 2088)))
          (then
            (call $continue-as-new (i32.const 2096) (i32.const 1) (i32.const 256))
            (call $granted)
            ;; Whatever it returns then, it is JSON.
            (i32.store (i32.const 524) (i32.const 2088))
            (i32.store (i32.const 528) (i32.const 4)))
          (else (call $step (i32.const 2100) (i32.const 1))))
        (return (call $value))))
    (if (i32.eq (local.get $letter) (i32.load16_u (i32.const 2080)))
      (then
        ;; Without its quotation marks.
        (call $all (i32.add (local.get $input) (i32.const 1)) (i32.sub (local.get $length) (i32.const 2)))
        (return (call $value))))
    (global.set $loops (i32.eq (local.get $letter) (i32.load16_u (i32.const 2072))))
    (call $step (i32.const 2100) (i32.const 1))
    (call $value))

  ;; One of the workflows, of 144 bytes each, with all defaults.
  (func $workflow (param $at i32) (param $name i32) (param $length i32)
    (i32.store (local.get $at) (local.get $name))
    (i32.store offset=4 (local.get $at) (local.get $length)))

  (func (export "stepwell:workflow/workflows@0.1.0#describe") (result i32)
    (i32.store (i32.const 128) (i32.const 4096))
    (i32.store (i32.const 132) (i32.const 5))
    (call $workflow (i32.const 4096) (i32.const 2048) (i32.const 4))
    (call $workflow (i32.const 4240) (i32.const 2056) (i32.const 5))
    (call $workflow (i32.const 4384) (i32.const 2064) (i32.const 5))
    (call $workflow (i32.const 4528) (i32.const 2072) (i32.const 5))
    (call $workflow (i32.const 4672) (i32.const 2080) (i32.const 3))
    ;; Where `all` posts to.
    (i32.store (i32.const 4796) (i32.const 3584))
    (i32.store (i32.const 4800) (i32.const 1))
    (i32.store (i32.const 3584) (i32.const 2136))
    (i32.store (i32.const 3588) (i32.const 11))
    (i32.const 128)))
