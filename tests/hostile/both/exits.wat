;; Ends itself as a process would.
;; in workflow code: failed workflows.trap with "exit"
;; in a body: attempts workflows.trap workflows.trap
(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
(func $evil (call $exit (i32.const 3)))
