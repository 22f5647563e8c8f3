;; Exports the contract's instance with nothing in it.
;; verdict: refused with "as the contract has it"
(component (instance $i) (export "stepwell:workflow/workflows@0.1.0" (instance $i)))
