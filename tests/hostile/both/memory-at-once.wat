;; Takes all of an address space.
;; in workflow code: failed workflows.memory_limit with "bytes of memory"
;; in a body: attempts workflows.memory_limit workflows.memory_limit
(func $evil (drop (memory.grow (i32.const 65000))))
