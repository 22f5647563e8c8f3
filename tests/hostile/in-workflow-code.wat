;; Does it in workflow code. What comes after is never reached by what ends the instance.
  (func $run (result i32)
    (call $evil)
    (call $ok-null))
