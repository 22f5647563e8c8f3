;; A guest of a few instructions: as many steps as its input says, one after the other, each answered with `1`.
;; It stands for the least that a language's own runtime can cost. Workflow `steps` takes a number, workflow `post` a list of a number
;; and a URL, to which each step posts.
(module
  (import "stepwell:workflow/commands@0.1.0" "step-begin" (func $step-begin (param i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "step-finish" (func $step-finish (param i32 i32)))
  (import "stepwell:workflow/commands@0.1.0" "http-send" (func $http-send (param i32 i32)))
  (import "stepwell:workflow/blocking-turns@0.1.0" "next" (func $next (param i32)))

  (memory (export "memory") 1)
  (global $heap (mut i32) (i32.const 16384))
  ;; What is below it on the heap stays.
  (global $kept (mut i32) (i32.const 16384))
  (data (i32.const 2048) "a")
  (data (i32.const 2064) "1")
  (data (i32.const 2080) "null")
  (data (i32.const 2096) "steps")
  (data (i32.const 2112) "post")
  (data (i32.const 2128) "POST")
  (data (i32.const 2144) "content-type")
  (data (i32.const 2160) "application/json")
  (data (i32.const 2192) "{\"i\":1}")
  (data (i32.const 2208) "127.0.0.1:*")

  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
    (global.get $heap)
    (global.set $heap (i32.add (global.get $heap) (local.get 3))))

  ;; The number that a text begins with.
  (func $number (param $at i32) (param $length i32) (result i32) (local $n i32) (local $digit i32)
    (block $done
      (loop $digit
        (br_if $done (i32.eqz (local.get $length)))
        (local.set $digit (i32.sub (i32.load8_u (local.get $at)) (i32.const 48)))
        (br_if $done (i32.gt_u (local.get $digit) (i32.const 9)))
        (local.set $n (i32.add (i32.mul (local.get $n) (i32.const 10)) (local.get $digit)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $length (i32.sub (local.get $length) (i32.const 1)))
        (br $digit)))
    (local.get $n))

  ;; Begins a step named `a`, waits for its attempt, posts if there is a URL, finishes it, and waits for its completion. On replay there
  ;; is no attempt.
  (func $step (param $url i32) (param $url-length i32)
    ;; What an event brings is not needed beyond its step.
    (global.set $heap (global.get $kept))
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
    (if (local.get $url-length) (then (call $send (local.get $url) (local.get $url-length))))
    (call $step-finish (i32.const 1536) (i32.const 256))
    (if (i32.load8_u (i32.const 256)) (then unreachable))
    (call $next (i32.const 512))
    (if (i32.ne (i32.load8_u (i32.const 512)) (i32.const 3)) (then unreachable)))

  ;; Posts for the attempt at 1536, and waits for the answer, whose status must be 200. What is left out is zeros.
  (func $send (param $url i32) (param $url-length i32)
    (i64.store (i32.const 3072) (i64.load (i32.const 1536)))
    (i32.store (i32.const 3080) (i32.const 2128))
    (i32.store (i32.const 3084) (i32.const 4))
    (i32.store (i32.const 3088) (local.get $url))
    (i32.store (i32.const 3092) (local.get $url-length))
    (i32.store (i32.const 3200) (i32.const 2144))
    (i32.store (i32.const 3204) (i32.const 12))
    (i32.store (i32.const 3208) (i32.const 2160))
    (i32.store (i32.const 3212) (i32.const 16))
    (i32.store (i32.const 3096) (i32.const 3200))
    (i32.store (i32.const 3100) (i32.const 1))
    (i32.store8 (i32.const 3104) (i32.const 1))
    (i32.store (i32.const 3108) (i32.const 2192))
    (i32.store (i32.const 3112) (i32.const 7))
    (call $http-send (i32.const 3072) (i32.const 256))
    (if (i32.load8_u (i32.const 256)) (then unreachable))
    (call $next (i32.const 512))
    ;; `answered` is the third case; a response is the first case of an answer, and its status comes first.
    (if (i32.ne (i32.load8_u (i32.const 512)) (i32.const 2)) (then unreachable))
    (if (i32.load8_u (i32.const 528)) (then unreachable))
    (if (i32.load8_u (i32.const 536)) (then unreachable))
    (if (i32.ne (i32.load16_u (i32.const 540)) (i32.const 200)) (then unreachable)))

  ;; The place of the first such character of a text that has one.
  (func $find (param $at i32) (param $character i32) (result i32)
    (loop $next-one
      (if (i32.ne (i32.load8_u (local.get $at)) (local.get $character))
        (then
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br $next-one))))
    (local.get $at))

  (func (export "stepwell:workflow/workflows@0.1.0#run") (param $name i32) (param $name-length i32) (param $input i32) (param $length i32)
    (result i32) (local $left i32) (local $url i32) (local $url-length i32)
    ;; The input is needed until the end.
    (global.set $kept (global.get $heap))
    (if (i32.eq (local.get $name-length) (i32.const 4))
      (then
        ;; `[100,"http://…"]`
        (local.set $url (i32.add (call $find (local.get $input) (i32.const 34)) (i32.const 1)))
        (local.set $url-length (i32.sub (call $find (local.get $url) (i32.const 34)) (local.get $url)))
        (local.set $input (i32.add (local.get $input) (i32.const 1)))
        (local.set $length (i32.sub (local.get $length) (i32.const 1)))))
    (local.set $left (call $number (local.get $input) (local.get $length)))
    (block $done
      (loop $again
        (br_if $done (i32.eqz (local.get $left)))
        (call $step (local.get $url) (local.get $url-length))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $again)))
    (i32.store (i32.const 256) (i32.const 0))
    (i32.store (i32.const 264) (i32.const 2080))
    (i32.store (i32.const 268) (i32.const 4))
    (i32.const 256))

  ;; Two workflows, of 144 bytes each; all of their options are left out, which is zeros, but for where `post` posts to.
  (func (export "stepwell:workflow/workflows@0.1.0#describe") (result i32)
    (i32.store (i32.const 128) (i32.const 4096))
    (i32.store (i32.const 132) (i32.const 2))
    (i32.store (i32.const 4096) (i32.const 2096))
    (i32.store (i32.const 4100) (i32.const 5))
    (i32.store (i32.const 4240) (i32.const 2112))
    (i32.store (i32.const 4244) (i32.const 4))
    (i32.store (i32.const 4364) (i32.const 3328))
    (i32.store (i32.const 4368) (i32.const 1))
    (i32.store (i32.const 3328) (i32.const 2208))
    (i32.store (i32.const 3332) (i32.const 11))
    (i32.const 128)))
