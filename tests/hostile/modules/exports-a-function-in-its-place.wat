;; Exports a function where the contract has an instance.
;; verdict: refused with ""
(component
  (core module $m (func (export "f")))
  (core instance $i (instantiate $m))
  (func $f (canon lift (core func $i "f")))
  (export "stepwell:workflow/workflows@0.1.0" (func $f)))
