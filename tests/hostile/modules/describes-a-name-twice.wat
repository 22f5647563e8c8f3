;; Describes two workflows of one name.
;; verdict: refused with "two workflows have the name"
(func $describe-otherwise (result i32)
  (drop (call $describe))
  (memory.copy (i32.const 8144) (i32.const 8000) (i32.const 144))
  (i32.store (i32.const 132) (i32.const 2))
  (i32.const 128))
(func $run (result i32) (call $ok-null))
