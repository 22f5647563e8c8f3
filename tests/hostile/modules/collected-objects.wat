;; Has types that need a garbage collector.
;; verdict: refused with "gc"
(type $pair (struct (field i32) (field i32)))
(func $make (drop (struct.new $pair (i32.const 1) (i32.const 2))))
(func $run (result i32) (call $ok-null))
