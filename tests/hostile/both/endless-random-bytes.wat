;; Asks for two billion random bytes.
;; in workflow code: failed workflows.trap
;; in a body: attempts workflows.trap workflows.trap
(import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
(func $evil (drop (call $random (i32.const 65536) (i32.const 2000000000))))
