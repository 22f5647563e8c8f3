//! Modules: what is refused and why, what they describe, and the cache of compiled ones.

use std::fs;
use std::path::{Path, PathBuf};

use stepwell_core::error::Code;
use stepwell_host::{Host, HostSettings, ModuleError, TrapKind, TurnEnd};

use crate::support::{ample, blocking, host, invoke, json, settings, short, with_exports};

const NULL: &str = "(func $run (result i32) (call $ok-null))";

#[test]
fn what_is_no_module_is_refused_with_the_reason() {
    let host = host();
    let component = |text: &str| wat::parse_str(text).unwrap();
    let cases = [
        (b"#!/bin/sh".to_vec(), "not a WebAssembly module"),
        (Vec::new(), "not a WebAssembly module"),
        (component("(module)"), "a WebAssembly core module, not a component"),
        (component("(component)"), "it has no such export"),
        (
            component(r#"(component (import "a:b/c@1.0.0" (instance)))"#),
            "imports `a:b/c@1.0.0`, which a workflow does not have",
        ),
        (component(r#"(component (import "f" (func)))"#), "imports `f`, which a workflow does not have"),
        (
            component(r#"(component (import "stepwell:workflow/turns@0.9.0" (instance)))"#),
            "version 0.9.0 of the contract; this host offers 0.1.0",
        ),
        (component(r#"(component (import "wasi:http/types@0.2.3" (instance)))"#), "`http-send`"),
        (component(r#"(component (import "wasi:cli/stdout@0.3.0" (instance)))"#), "version 0.3.0 of WASI"),
        (
            component(
                r#"(component (import "wasi:clocks/wall-clock@0.2.3" (instance (export "now" (func (result u32))))))"#,
            ),
            "not a valid WebAssembly component",
        ),
        (
            component(r#"(component (instance $i) (export "stepwell:workflow/workflows@0.1.0" (instance $i)))"#),
            "does not export `stepwell:workflow/workflows@0.1.0` as the contract has it",
        ),
    ];
    for (bytes, reason) in cases {
        let error = host.compile(&bytes).err().unwrap_or_else(|| panic!("accepted: {reason}"));
        assert!(error.to_string().contains(reason), "{error} has no `{reason}`");
        assert!(error.to_error().is(Code::InvalidModule));
    }
    let mut cut = blocking(NULL);
    cut.truncate(cut.len() / 2);
    assert!(matches!(host.compile(&cut), Err(ModuleError::Invalid(_))));
}

/// A module that describes one workflow, with this in place of the definition's other fields.
fn describing(fields: &str) -> Vec<u8> {
    with_exports(&format!(
        r#"
        (data (i32.const 3000) "checkout")
        (data (i32.const 3016) "{{}}")
        (func (export "stepwell:workflow/workflows@0.1.0#run") (param i32 i32 i32 i32) (result i32) (call $ok-null))
        (func (export "stepwell:workflow/workflows@0.1.0#describe") (result i32)
          (i32.store (i32.const 4096) (i32.const 3000))
          (i32.store (i32.const 4100) (i32.const 8))
          {fields}
          (i32.store (i32.const 128) (i32.const 4096))
          (i32.store (i32.const 132) (i32.const 1))
          (i32.const 128))
        "#
    ))
}

#[tokio::test]
async fn a_module_describes_its_workflows() {
    let host = host();
    // The policy's multiplier is there and not a number, and the schema is `{}`.
    let fields = r#"
      (i32.store8 (i32.const 4144) (i32.const 1)) (f64.store (i32.const 4152) (f64.const nan))
      (i32.store8 (i32.const 4208) (i32.const 1)) (i32.store (i32.const 4212) (i32.const 3016))
      (i32.store (i32.const 4216) (i32.const 2))
    "#;
    let module = host.compile(&describing(fields)).unwrap();
    let definitions = module.describe(&host, ample()).await.unwrap();
    assert_eq!(definitions.len(), 1);
    assert_eq!(definitions[0].name, "checkout");
    assert!(definitions[0].retry.multiplier.is_some_and(f64::is_nan), "what is out of range is passed on");
    assert_eq!(definitions[0].retry.max_attempts, None);
    assert_eq!(definitions[0].input_schema, Some(json("{}")));
}

#[tokio::test]
async fn a_describe_that_does_not_answer_is_refused() {
    let host = host();
    let describe = async |fields: &str, deadline| {
        let module = host.compile(&describing(fields)).unwrap();
        module.describe(&host, deadline).await.unwrap_err()
    };
    let kind = |error: ModuleError| match error {
        ModuleError::DescribeTrapped(trap) => trap.kind,
        other => panic!("{other}"),
    };
    assert_eq!(kind(describe("(loop $l (br $l))", short()).await), TrapKind::TurnBudget);
    assert_eq!(kind(describe("(unreachable)", ample()).await), TrapKind::Trap);
    assert_eq!(kind(describe("(drop (call $next))", ample()).await), TrapKind::Trap);
    let no_json = r#"
      (i32.store8 (i32.const 4208) (i32.const 1)) (i32.store (i32.const 4212) (i32.const 3000))
      (i32.store (i32.const 4216) (i32.const 8))
    "#;
    assert!(describe(no_json, ample()).await.to_string().contains("the input schema is not valid JSON"));
}

fn cached(dir: &Path) -> Host {
    Host::new(HostSettings { cache_dir: Some(dir.to_owned()), ..settings() }).unwrap()
}

fn only_file(dir: &Path) -> PathBuf {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// That the module runs, from wherever its code came.
async fn runs(host: &Host, bytes: &[u8]) {
    let module = host.compile(bytes).unwrap();
    assert_eq!(invoke(host, &module).0.turn(None, ample()).await, TurnEnd::Returned(Ok(json("null"))));
}

#[tokio::test]
async fn a_compiled_module_is_kept_and_used() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, other) = (blocking(NULL), blocking("(func $run (result i32) (unreachable))"));
    runs(&cached(dir.path()), &bytes).await;
    let file = only_file(dir.path());
    // Used, and not compiled again: the other module's code under this one's name is what then runs.
    let elsewhere = tempfile::tempdir().unwrap();
    cached(elsewhere.path()).compile(&other).unwrap();
    fs::copy(only_file(elsewhere.path()), &file).unwrap();
    let host = cached(dir.path());
    let module = host.compile(&bytes).unwrap();
    assert!(matches!(invoke(&host, &module).0.turn(None, ample()).await, TurnEnd::Trapped(_)));
}

#[test]
fn how_many_threads_compile_makes_no_difference_to_what_comes_of_it() {
    let bytes = blocking(NULL);
    let (alone, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    cached(alone.path()).compile(&bytes).unwrap();
    cached(beside.path()).compile_beside(&bytes).unwrap();
    let (alone, beside) = (only_file(alone.path()), only_file(beside.path()));
    assert_eq!(alone.file_name(), beside.file_name());
    assert!(fs::read(alone).unwrap() == fs::read(beside).unwrap());
}

#[tokio::test]
async fn a_damaged_file_is_not_trusted_and_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = blocking(NULL);
    runs(&cached(dir.path()), &bytes).await;
    let file = only_file(dir.path());
    let whole = fs::read(&file).unwrap();
    let mut turned = whole.clone();
    let middle = turned.len() / 2;
    turned[middle] ^= 1;
    let damages = [Vec::new(), b"foreign".to_vec(), whole[..40].to_vec(), whole[..whole.len() - 1].to_vec(), turned];
    for damaged in damages {
        fs::write(&file, &damaged).unwrap();
        runs(&cached(dir.path()), &bytes).await;
        assert_eq!(only_file(dir.path()), file);
        assert!(fs::read(&file).unwrap() == whole, "the file is to be whole again");
    }
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_costs_nothing_but_time() {
    let dir = tempfile::tempdir().unwrap();
    let host = cached(dir.path());
    fs::remove_dir(dir.path()).unwrap();
    runs(&host, &blocking(NULL)).await;
}
