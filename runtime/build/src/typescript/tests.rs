//! What the author's file becomes: same lines, and the same columns wherever types can be erased.

use std::path::Path;

use super::to_javascript;

fn js(source: &str) -> String {
    match to_javascript("a.ts", Path::new("a.ts"), source) {
        Ok(parsed) => parsed.js,
        Err(wrong) => panic!("{}", wrong.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

/// Types can be erased: what is left stands where it stood.
fn erased(source: &str, expected: &str) {
    assert_eq!(js(source), expected);
    assert_eq!(source.chars().count(), expected.chars().count(), "every character keeps its place");
}

#[test]
fn annotations_are_blanked() {
    erased("let a: number = 1, b!: string;", "let a         = 1, b         ;");
    erased(
        "function f<T>(this: X, a?: T, ...r: T[]): T { return a! }",
        "function f   (         a    , ...r     )    { return a  }",
    );
    erased("const g = <T,>(a: T): a is T => a as T;", "const g =     (a   )         => a     ;");
    erased("f<number>(x satisfies Y)[0]!.z;", "f        (x            )[0] .z;");
    erased("try {} catch (e: unknown) {}", "try {} catch (e         ) {}");
}

#[test]
fn declarations_are_blanked() {
    erased("type A = { x: 1 };\nlet b = 1;", "                  \nlet b = 1;");
    erased("export interface A { é: 1 }\nexport let b = 1;", "                           \nexport let b = 1;");
    erased(
        "declare const x: number;\ndeclare module 'y' { }\nlet b = 1;",
        "                        \n                      \nlet b = 1;",
    );
    erased(
        "function f(a: 1): 1;\nfunction f(a: any) { return a }\nlet c = f(1);",
        "                    \nfunction f(a     ) { return a }\nlet c = f(1);",
    );
}

#[test]
fn classes_keep_what_runs() {
    let source = "abstract class A<T> extends B<T> implements C, D { private readonly x?: T = 1; static #y: 1 = 1; \
                  declare z: T; abstract m(): void; public get n(): T { return 1 } [k: string]: T; }";
    let out = js(source);
    assert!(
        source.len() == out.len() && out.chars().zip(source.chars()).all(|(to, from)| to == from || to == ' '),
        "{out}"
    );
    let words: Vec<_> = out.split_whitespace().collect();
    assert_eq!(words.join(" "), "class A extends B { x = 1; static #y = 1; get n() { return 1 } }");
}

#[test]
fn imports_of_types_are_elided() {
    erased("import type { A } from 'a';\nlet x: A;", "                           \nlet x   ;");
    erased("import { A, b, type C } from 'a';\nlet x: A = b;", "import {    b,        } from 'a';\nlet x    = b;");
    erased("import D, { A } from 'a';\nlet x: A = D;", "import D, {   } from 'a';\nlet x    = D;");
    erased("import D, * as N from 'a';\nlet x: N.A = D;", "import D         from 'a';\nlet x      = D;");
    erased("import A from 'a';\nexport { type A as B };", "                  \n                       ");
    erased("import 'a';\nexport type { B } from 'b';", "import 'a';\n                           ");
}

#[test]
fn a_lost_semicolon_or_arrow_is_not_lost() {
    // Blanking would join the two lines into one call.
    let out = js("let a = b as any\n(function () {})()\n");
    assert_eq!(out.lines().count(), 2);
    assert!(out.starts_with("let a = b;\n"), "{out}");
    let out = js("const f = (a: 1): {\n  x: 1\n} => { throw a };");
    assert!(out.contains("=>"), "{out}");
}

#[test]
fn what_has_to_be_transformed_keeps_its_lines() {
    let source = "enum Color {\n  Red,\n  Green = 'g',\n}\n\nclass A {\n  constructor(private x: number) {\n    super_();\n  }\n}\n\
                  namespace N {\n  export const y = `a\nb`;\n}\n\nconst t = <string>'t';\nthrow new Error(Color.Red + N.y);\n";
    let out = js(source);
    for text in ["super_()", "throw new Error", "class A", "b`", "const t"] {
        let line = |of: &str| of.lines().position(|line| line.contains(text));
        assert_eq!(line(&out), line(source), "{text} in\n{out}");
    }
}

#[test]
fn all_errors_are_found() {
    let errors = to_javascript("a.ts", Path::new("a.ts"), "let x = 1;\nlet x = 2;\n@d class A {}\nimport('b');\n");
    let Err(super::Wrong { errors, .. }) = errors else { panic!("it is wrong") };
    let lines: Vec<_> = errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [1, 3, 4], "{errors:?}");
}
