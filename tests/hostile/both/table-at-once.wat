;; Takes two billion table elements.
;; in workflow code: failed workflows.memory_limit with "table elements"
;; in a body: attempts workflows.memory_limit workflows.memory_limit
(table $t 1 funcref)
(func $evil (drop (table.grow $t (ref.null func) (i32.const 2000000000))))
