;; Returns a JSON text with halves of characters: each is replaced.
;; verdict: succeeded "\ufffda\ufffd"
(func $run (result i32)
  (call $ok (i32.const 4000) (i32.const 15)))
(data (i32.const 4000) "\22\5cud800a\5cuDFFF\22")
