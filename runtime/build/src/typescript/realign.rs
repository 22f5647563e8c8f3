//! Printed code laid out on the lines of its source, by the printer's source map.
//!
//! Breaks are only made where the printer made some, and breaks that it made become spaces where the source has none. Both are
//! safe: the printer ends every statement with a semicolon, prints no comments here, and no break inside a template is touched.

use std::collections::BTreeMap;

use oxc::allocator::Allocator;
use oxc::ast::ast::TemplateLiteral;
use oxc::ast_visit::{Visit, walk};
use oxc::parser::Parser;
use oxc::span::{SourceType, Span};

/// A place in the printed code and the one in the source that it comes from; all from 0.
pub(crate) struct Token {
    pub(crate) printed_line: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Lays `code` out. A line of it goes to the source line of the first token on it.
pub(crate) fn realign(code: &str, tokens: impl Iterator<Item = Token>) -> String {
    let mut first_token = BTreeMap::new();
    for Token { printed_line, line, column } in tokens {
        first_token.entry(printed_line).or_insert((line, column));
    }
    let templates = templates(code);
    let mut out = String::with_capacity(code.len() * 2);
    let mut line = 0;
    let mut offset = 0;
    for (number, text) in (0_u32..).zip(code.split('\n')) {
        if templates.iter().any(|span| (span.start as usize) < offset && offset <= span.end as usize) {
            out.push('\n');
            out.push_str(text);
            line += 1;
        } else {
            match first_token.get(&number) {
                Some(&(target, column)) if target > line => {
                    (line..target).for_each(|_| out.push('\n'));
                    (0..column).for_each(|_| out.push(' '));
                    line = target;
                }
                _ if out.is_empty() => {}
                _ => out.push(' '),
            }
            out.push_str(text.trim_start());
        }
        offset += text.len() + 1;
    }
    out
}

/// Where templates stand, whose line breaks are part of their text.
fn templates(code: &str) -> Vec<Span> {
    struct Templates(Vec<Span>);
    impl<'a> Visit<'a> for Templates {
        fn visit_template_literal(&mut self, template: &TemplateLiteral<'a>) {
            self.0.push(template.span);
            walk::walk_template_literal(self, template);
        }
    }
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, code, SourceType::mjs()).parse();
    let mut templates = Templates(Vec::new());
    templates.visit_program(&parsed.program);
    templates.0
}
