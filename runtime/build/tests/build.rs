//! Source to component through the public surface: what comes out, and what authors are told.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use stepwell_build::{BuildError, BuildOptions, Built, build, embed_core_module};
use tempfile::TempDir;

/// A folder with these files; the first is the entry.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn built_in(dir: &Path, entry: &str, options: &BuildOptions) -> Result<Built, BuildError> {
    build(&dir.join(entry), options, &|_| {})
}

fn built(files: &[(&str, &str)]) -> Result<Built, BuildError> {
    built_in(folder(files).path(), files[0].0, &BuildOptions::default())
}

/// What the author of these files is told.
fn told(files: &[(&str, &str)]) -> String {
    built(files).unwrap_err().to_string()
}

const HELLO: &str = "import { workflow } from \"stepwell\";\nimport { greeting, type Name } from \"./lib/greeting.js\";\n\
                     export const hello = workflow(\"hello\", async ({ input }: { input: Name }) => greeting(input));\n\
                     console.log(\"made\", greeting(\"x\"));\n";
const GREETING: &str =
    "export type Name = string;\nexport const greeting = (name: Name): string => `Hello, ${name}!`;\n";
const PROJECT: &[(&str, &str)] = &[("hello.ts", HELLO), ("lib/greeting.ts", GREETING)];

#[test]
fn a_project_becomes_a_component_of_the_contract() {
    let dir = folder(PROJECT);
    let built = built_in(dir.path(), "hello.ts", &BuildOptions::default()).unwrap();
    let wit_component::DecodedWasm::Component(resolve, world) = wit_component::decode(&built.component).unwrap() else {
        panic!("it is a component");
    };
    let names = |items: &mut dyn Iterator<Item = &wit_parser::WorldKey>| {
        items.map(|key| resolve.name_world_key(key)).collect::<Vec<_>>()
    };
    let world = &resolve.worlds[world];
    let imports = names(&mut world.imports.keys());
    assert!(imports.contains(&"stepwell:workflow/commands@0.1.0".to_owned()), "{imports:?}");
    assert!(imports.contains(&"stepwell:workflow/turns@0.1.0".to_owned()), "{imports:?}");
    assert!(!imports.iter().any(|name| name.contains("module-loader") || name.contains("blocking")), "{imports:?}");
    let exports = names(&mut world.exports.keys());
    assert!(exports.contains(&"stepwell:workflow/workflows@0.1.0".to_owned()), "{exports:?}");
    assert_eq!(built.output.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["made Hello, x!"]);
    assert_eq!(built.sources.len(), 2);
    assert!(built.sources[0].ends_with("hello.ts"));
}

#[test]
fn the_same_sources_give_the_same_bytes_wherever_they_lie() {
    let (one, other) = (built(PROJECT).unwrap(), built(PROJECT).unwrap());
    assert!(!one.from_cache && !other.from_cache);
    assert!(one.component == other.component);
}

#[test]
fn a_build_is_cached_until_a_source_changes() {
    let dir = folder(PROJECT);
    let cache = tempfile::tempdir().unwrap();
    let options = BuildOptions { cache_dir: Some(cache.path().to_owned()), ..BuildOptions::default() };
    let first = built_in(dir.path(), "hello.ts", &options).unwrap();
    let again = built_in(dir.path(), "hello.ts", &options).unwrap();
    assert!(!first.from_cache && again.from_cache);
    assert!(first.component == again.component);
    assert_eq!(first.output, again.output);
    fs::write(dir.path().join("lib/greeting.ts"), GREETING.replace("Hello", "Bye")).unwrap();
    let changed = built_in(dir.path(), "hello.ts", &options).unwrap();
    assert!(!changed.from_cache);
    assert_eq!(changed.output[0].text, "made Bye, x!");
    // A damaged file counts as absent.
    for file in fs::read_dir(cache.path()).unwrap() {
        fs::write(file.unwrap().path(), "damaged").unwrap();
    }
    assert!(!built_in(dir.path(), "hello.ts", &options).unwrap().from_cache);
}

#[test]
fn packages_and_json_can_be_imported() {
    let files = [
        (
            "a.js",
            "import { workflow } from 'stepwell'; import { x } from 'pkg'; import d from './d.json';\nworkflow('a', () => x); console.log(x + d.y);",
        ),
        ("d.json", "{ \"y\": 2 }"),
        (
            "node_modules/pkg/package.json",
            r#"{ "name": "pkg", "exports": { ".": { "stepwell": "./s.js", "default": "./no.cjs" } } }"#,
        ),
        ("node_modules/pkg/s.js", "export const x = 40;"),
        ("node_modules/pkg/no.cjs", "module.exports = {};"),
    ];
    assert_eq!(built(&files).unwrap().output[0].text, "42");
}

#[test]
fn of_a_package_the_form_for_browsers_is_taken_and_it_may_look_at_the_clock() {
    let files = [
        (
            "a.ts",
            "import { workflow } from 'stepwell'; import { x } from 'pkg';\nworkflow('a', () => x); console.log(x);",
        ),
        (
            "node_modules/pkg/package.json",
            r#"{ "name": "pkg", "exports": { "node": "./n.js", "browser": "./b.js", "default": "./n.js" } }"#,
        ),
        ("node_modules/pkg/n.js", "import fs from 'node:fs'; export const x = fs;"),
        ("node_modules/pkg/b.js", "const began = Date.now();\nexport const x = [began, new Date().getTime()];"),
    ];
    assert_eq!(built(&files).unwrap().output[0].text, "[0, 0]");
    // The author's own code is told that there is no clock, and nobody is given randomness that would be the same in every run.
    let text = told(&[("a.ts", "const began = Date.now();\nconsole.log(began);")]);
    assert!(text.contains("a.ts:1:") && text.contains("Date.now() is not available at a module's top level"), "{text}");
    let random = [files[0], files[1], files[2], ("node_modules/pkg/b.js", "export const x = Math.random();")];
    assert!(told(&random).contains("Math.random is not available at a module's top level"));
}

#[test]
fn the_place_of_what_is_thrown_is_that_of_the_source() {
    let BuildError::Thrown { thrown, .. } = built(&[("a.ts", "const f: any = null;\n  f.g();\n")]).unwrap_err() else {
        panic!("it throws")
    };
    let place = thrown.place.unwrap();
    assert_eq!((place.line, place.column), (2, 4));
}

#[test]
fn unresolved_imports_say_where_and_what_was_tried() {
    let text = told(&[(
        "a.ts",
        "import fs from \"node:fs\";\nimport { x } from \"./nope\";\nconsole.log(fs, x, y);\nimport y from \"leftpad\";\n",
    )]);
    assert!(
        text.contains("a.ts:1:16: \"node:fs\" is a module of Node.js, which a workflow's sandbox does not have"),
        "{text}"
    );
    assert!(text.contains("a.ts:2:19: cannot find the module \"./nope\""), "{text}");
    assert!(text.contains("nope.ts") && text.contains("nope.js"), "{text}");
    assert!(text.contains("a.ts:4:15: cannot find the module \"leftpad\""), "{text}");
}

#[test]
fn syntax_errors_of_all_files_are_shown_with_their_lines() {
    let text = told(&[("a.ts", "import './b';\nconst a = 1;\nconst a = 2;\n"), ("b.ts", "\tlet é = ;\n")]);
    assert!(text.contains("b.ts:1:10: "), "{text}");
    assert!(text.contains("  1 | \tlet é = ;\n    | \t        ^"), "{text}");
    assert!(text.contains("`a` has already been declared"), "{text}");
}

#[test]
fn common_js_and_decorators_are_refused() {
    let text = told(&[
        ("a.js", "import p from 'p'; p();"),
        ("node_modules/p/package.json", "{\"main\":\"i.js\"}"),
        ("node_modules/p/i.js", "module.exports = 1;"),
    ]);
    assert!(text.contains("node_modules/p/i.js:1:1: this file is a CommonJS module"), "{text}");
    let text = told(&[("a.ts", "class A { @d x = 1 }")]);
    assert!(text.contains("a.ts:1:11: decorators are not supported"), "{text}");
}

#[test]
fn what_is_thrown_at_top_level_names_the_typescript_line() {
    let source = "type A = {\n  x: number;\n};\nfunction f(a: A): never {\n  throw new TypeError(\"boo \" + a.x, { cause: new Error(\"inner\") });\n}\n\
                  console.log(\"before\");\nf({\n  x: 3,\n});\n";
    let BuildError::Thrown { thrown, output } = built(&[("a.ts", source)]).unwrap_err() else { panic!("it throws") };
    assert_eq!(thrown.name.as_deref(), Some("TypeError"));
    assert_eq!(thrown.message, "boo 3");
    assert_eq!(thrown.causes, ["Error: inner"]);
    let lines: Vec<_> = thrown.stack.lines().map(str::trim).collect();
    assert!(lines[0].starts_with("at f (a.ts:5:") && lines[1].starts_with("at <anonymous> (a.ts:8:"), "{lines:?}");
    assert_eq!(output[0].text, "before");
    let place = thrown.place.unwrap();
    assert_eq!((place.line, place.text.trim_start().starts_with("throw")), (5, true));
}

#[test]
fn transformed_files_and_rejected_awaits_name_their_lines_too() {
    let source = "enum E {\n  A,\n}\nnamespace N {\n  export const x = 1;\n}\nconst wait: Promise<void> = Promise.resolve();\nawait wait;\n\
                  await Promise.reject(\n  new RangeError(`${E.A}${N.x}`),\n);\n";
    let BuildError::Thrown { thrown, .. } = built(&[("a.ts", source)]).unwrap_err() else { panic!("it throws") };
    assert_eq!((thrown.name.as_deref(), thrown.message.as_str()), (Some("RangeError"), "01"));
    assert!(thrown.stack.contains("(a.ts:9:"), "{}", thrown.stack);
}

#[test]
fn a_thrown_value_that_is_no_error_is_shown() {
    let text = told(&[("a.js", "throw { a: 1 };")]);
    assert!(text.contains("{\"a\":1} (a value that is not an Error)"), "{text}");
    assert!(told(&[("a.js", "throw undefined;")]).contains("undefined"));
}

#[test]
fn top_level_code_is_bounded() {
    let options = BuildOptions { evaluation_timeout: Duration::from_secs(2), ..BuildOptions::default() };
    let dir = folder(&[("a.ts", "console.log('in'); for (;;) {}")]);
    let text = built_in(dir.path(), "a.ts", &options).unwrap_err().to_string();
    assert!(text.contains("did not end within 2s") && text.contains("info: in"), "{text}");
    let text = told(&[("a.ts", "await new Promise(() => {}); export {}")]);
    assert!(text.contains("a top-level `await` waits for a promise that nothing will settle"), "{text}");
}

#[test]
fn output_of_floating_promises_is_kept() {
    let source = "import { workflow } from 'stepwell'; workflow('a', () => 1);\n(async () => { await 1; await 2; console.warn('late'); })();";
    let output = built(&[("a.js", source)]).unwrap().output;
    assert_eq!((output[0].level.as_str(), output[0].text.as_str()), ("warn", "late"));
}

#[test]
fn a_module_without_workflows_is_refused_with_an_example() {
    let text = told(&[("a.ts", "export const a: number = 1;")]);
    assert!(
        text.starts_with("a.ts registers no workflow") && text.contains("import { workflow } from \"stepwell\""),
        "{text}"
    );
}

#[test]
fn core_modules_become_components_and_others_are_refused() {
    let wit = include_str!("../../../guest-sdk/wit/workflow.wit");
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_source("workflow.wit", wit).unwrap();
    let world = resolve.select_world(&[package], Some("workflow")).unwrap();
    let mut core = wit_component::dummy_module(&resolve, world, wit_parser::ManglingAndAbi::Standard32);
    let utf8 = wit_component::StringEncoding::UTF8;
    wit_component::embed_component_metadata(&mut core, &resolve, world, utf8).unwrap();
    let component = embed_core_module(&core).unwrap();
    assert!(matches!(wit_component::decode(&component), Ok(wit_component::DecodedWasm::Component(..))));

    assert!(matches!(embed_core_module(b"no wasm"), Err(BuildError::CoreModule(_))));
}
