;; Takes memory page by page, for ever.
;; in workflow code: failed workflows.memory_limit with "asked for 134283264 bytes of memory in all; it may have 134217728"
;; in a body: attempts workflows.memory_limit workflows.memory_limit
(func $evil (loop $again (drop (memory.grow (i32.const 1))) (br $again)))
