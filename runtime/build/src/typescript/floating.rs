//! Promises that a statement lets go: the engine does not tell of a rejection that nobody handles, so the SDK is given them.
//!
//! `save(order);` becomes `ǃ(save(order),12);`, where 12 is the line. A statement's value reaches nobody else, so a promise among
//! these that is rejected is one that nothing awaits. Lines stay true, columns of what is wrapped move by two.

use std::fmt::Write as _;

use oxc::allocator::Allocator;
use oxc::ast::ast::{Expression, ExpressionStatement, UnaryOperator};
use oxc::ast_visit::{Visit, walk};
use oxc::parser::Parser;
use oxc::span::{GetSpan, SourceType, Span};

/// The SDK's function, a global: `globals.js`. A letter that nobody gives to a variable of theirs.
const WATCH: &str = "ǃ(";

/// `js` with each statement's call handed to the SDK.
pub(crate) fn watch(js: &str) -> String {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, js, SourceType::mjs()).parse();
    let mut calls = Calls(Vec::new());
    calls.visit_program(&parsed.program);
    let mut edits: Vec<(usize, Edit)> = Vec::new();
    let (mut line, mut counted) = (1, 0);
    calls.0.sort_by_key(|span| span.start);
    for span in calls.0 {
        let (start, end) = (span.start as usize, span.end as usize);
        line += js[counted..start].matches('\n').count();
        counted = start;
        edits.push((start, Edit::Open));
        edits.push((end, Edit::Close { line }));
    }
    // Stable: where one statement ends and another begins, the first is closed before.
    edits.sort_by_key(|(at, edit)| (*at, matches!(edit, Edit::Open)));
    let mut out = String::with_capacity(js.len() + edits.len() * 4);
    let mut done = 0;
    for (at, edit) in edits {
        out.push_str(&js[done..at]);
        done = at;
        match edit {
            Edit::Open => out.push_str(WATCH),
            Edit::Close { line } => {
                let _ = write!(out, ",{line})");
            }
        }
    }
    out.push_str(&js[done..]);
    out
}

/// The column of a place in the source, from that in what [`watch`] made of it; both from 1, in characters.
pub(crate) fn column_in_source(js: &str, line: usize, column: usize) -> usize {
    let text = js.lines().nth(line.saturating_sub(1)).unwrap_or("");
    let before = text.char_indices().nth(column.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
    column.saturating_sub(text[..before].matches(WATCH).count() * WATCH.chars().count()).max(1)
}

enum Edit {
    Open,
    Close { line: usize },
}

/// The spans of calls whose value a statement drops.
struct Calls(Vec<Span>);

impl<'a> Visit<'a> for Calls {
    fn visit_expression_statement(&mut self, it: &ExpressionStatement<'a>) {
        let expression = match &it.expression {
            Expression::UnaryExpression(unary) if unary.operator == UnaryOperator::Void => &unary.argument,
            other => other,
        };
        let drops_a_call = match expression {
            Expression::CallExpression(call) => !matches!(call.callee, Expression::Super(_)),
            Expression::ChainExpression(_)
            | Expression::LogicalExpression(_)
            | Expression::ConditionalExpression(_) => true,
            _ => false,
        };
        if drops_a_call {
            self.0.push(expression.span());
        }
        walk::walk_expression_statement(self, it);
    }
}

#[cfg(test)]
mod tests {
    use super::{column_in_source, watch};

    #[test]
    fn calls_whose_value_is_dropped_are_handed_on() {
        for (js, watched) in [
            ("work();", "ǃ(work(),1);"),
            ("\n  a?.b(c)\n  void d.e()", "\n  ǃ(a?.b(c),2)\n  void ǃ(d.e(),3)"),
            ("if (x) f(); else g()", "if (x) ǃ(f(),1); else ǃ(g(),1)"),
            ("x && f(async () => {\n  g();\n});", "ǃ(x && f(async () => {\n  ǃ(g(),2);\n}),1);"),
            ("(async () => { await f(); })();", "ǃ((async () => { await f(); })(),1);"),
            ("x ? f() : g(), 1;", "x ? f() : g(), 1;"),
            ("é.map(f);f();", "ǃ(é.map(f),1);ǃ(f(),1);"),
        ] {
            assert_eq!(watch(js), watched);
        }
    }

    #[test]
    fn a_column_is_found_again() {
        let js = watch("  a.b(c);");
        assert_eq!(js, "  ǃ(a.b(c),1);");
        assert_eq!(column_in_source(&js, 1, 5), 3);
        assert_eq!(column_in_source(&js, 1, 2), 2);
    }

    #[test]
    fn what_is_no_such_statement_stays_as_it_is() {
        for js in [
            "'use strict'; const a = f(); await f(); x = f(); return_(await f)`t`; new F; a++; f;",
            "class A extends B { constructor() { super(); } }",
            "const g = () => f();",
        ] {
            assert_eq!(watch(js), js);
        }
    }
}
