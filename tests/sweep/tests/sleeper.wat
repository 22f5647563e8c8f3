;; A workflow that sleeps for a second and returns null: as small as a guest can be.
(module
  (import "stepwell:workflow/commands@0.1.0" "sleep" (func $sleep (param i64 i32)))
  (import "stepwell:workflow/blocking-turns@0.1.0" "next" (func $next (param i32)))

  (memory (export "memory") 4)
  (global $heap (mut i32) (i32.const 16384))
  (data (i32.const 2048) "sleeper")
  (data (i32.const 2096) "null")
  ;; `describe` answers one definition: its name, and nothing else.
  (data (i32.const 128) "\00\10\00\00\01\00\00\00")
  (data (i32.const 4096) "\00\08\00\00\07\00\00\00")

  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
    (global.get $heap)
    (global.set $heap (i32.add (global.get $heap) (local.get 3))))

  (func (export "stepwell:workflow/workflows@0.1.0#describe") (result i32) (i32.const 128))

  (func (export "stepwell:workflow/workflows@0.1.0#run") (param i32 i32 i32 i32) (result i32)
    (call $sleep (i64.const 1000) (i32.const 256))
    (call $next (i32.const 512))
    (i32.store (i32.const 256) (i32.const 0))
    (i32.store (i32.const 264) (i32.const 2096))
    (i32.store (i32.const 268) (i32.const 4))
    (i32.const 256)))
