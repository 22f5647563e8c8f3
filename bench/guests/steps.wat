;; A guest of a few instructions: as many steps as its input says, one after the other, each answered with `1`.
;; It stands for the least that a language's own runtime can cost.
(module
  (import "stepwell:workflow/commands@0.1.0" "step-begin" (func $step-begin (param i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "step-finish" (func $step-finish (param i32 i32)))
  (import "stepwell:workflow/blocking-turns@0.1.0" "next" (func $next (param i32)))

  (memory (export "memory") 1)
  (global $heap (mut i32) (i32.const 16384))
  (data (i32.const 2048) "a")
  (data (i32.const 2064) "1")
  (data (i32.const 2080) "null")
  (data (i32.const 2096) "steps")

  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
    (global.get $heap)
    (global.set $heap (i32.add (global.get $heap) (local.get 3))))

  ;; The number that a text is.
  (func $number (param $at i32) (param $length i32) (result i32) (local $n i32)
    (block $done
      (loop $digit
        (br_if $done (i32.eqz (local.get $length)))
        (local.set $n (i32.add
          (i32.mul (local.get $n) (i32.const 10))
          (i32.sub (i32.load8_u (local.get $at)) (i32.const 48))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $length (i32.sub (local.get $length) (i32.const 1)))
        (br $digit)))
    (local.get $n))

  ;; Begins a step named `a`, waits for its attempt, finishes it, and waits for its completion. On replay there is no attempt.
  (func $step
    ;; What an event brings is not needed beyond its step.
    (global.set $heap (i32.const 16384))
    (i32.store (i32.const 1024) (i32.const 2048))
    (i32.store (i32.const 1028) (i32.const 1))
    (call $step-begin (i32.const 1024) (i32.const 256))
    (if (i32.load8_u (i32.const 256)) (then unreachable))
    (call $next (i32.const 512))
    ;; `completed` is the fourth case of an event, `attempt` the first.
    (if (i32.eq (i32.load8_u (i32.const 512)) (i32.const 3)) (then (return)))
    (if (i32.load8_u (i32.const 512)) (then unreachable))
    (i32.store (i32.const 1536) (i32.load (i32.const 520)))
    (i32.store (i32.const 1540) (i32.load (i32.const 524)))
    (i32.store (i32.const 1552) (i32.const 2064))
    (i32.store (i32.const 1556) (i32.const 1))
    (call $step-finish (i32.const 1536) (i32.const 256))
    (if (i32.load8_u (i32.const 256)) (then unreachable))
    (call $next (i32.const 512))
    (if (i32.ne (i32.load8_u (i32.const 512)) (i32.const 3)) (then unreachable)))

  (func (export "stepwell:workflow/workflows@0.1.0#run") (param i32 i32 i32 i32) (result i32) (local $left i32)
    (local.set $left (call $number (local.get 2) (local.get 3)))
    (block $done
      (loop $again
        (br_if $done (i32.eqz (local.get $left)))
        (call $step)
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $again)))
    (i32.store (i32.const 256) (i32.const 0))
    (i32.store (i32.const 264) (i32.const 2080))
    (i32.store (i32.const 268) (i32.const 4))
    (i32.const 256))

  ;; One workflow named `steps`; all of its options are left out, which is zeros.
  (func (export "stepwell:workflow/workflows@0.1.0#describe") (result i32)
    (i32.store (i32.const 128) (i32.const 4096))
    (i32.store (i32.const 132) (i32.const 1))
    (i32.store (i32.const 4096) (i32.const 2096))
    (i32.store (i32.const 4100) (i32.const 5))
    (i32.const 128)))
