//! Types blanked out, every other character left in its place, so that lines and columns stay true.
//!
//! It may leave something that means another thing than the source (a line that a semicolon no longer ends, for one): the
//! caller compares the result with what oxc's transformer makes, and takes this only where both mean the same.

use oxc::ast::ast::*;
use oxc::ast_visit::{Visit, walk};
use oxc::semantic::Scoping;
use oxc::span::{GetSpan, Span};
use oxc::syntax::scope::ScopeFlags;

/// Words that only TypeScript puts before a class or a member.
const MODIFIERS: &[&str] = &["public", "private", "protected", "readonly", "abstract", "override", "declare"];

/// `source` without its types; of the same length in characters, with the same line breaks.
pub(crate) fn erase(source: &str, program: &Program<'_>, scoping: &Scoping) -> String {
    let mut eraser = Eraser { source, scoping, spans: Vec::new() };
    eraser.visit_program(program);
    let mut spans = eraser.spans;
    spans.sort();
    let mut out = String::with_capacity(source.len());
    let mut done = 0;
    for (start, end) in spans {
        let start = start.max(done);
        if end > start {
            out.push_str(&source[done..start]);
            out.extend(source[start..end].chars().map(|c| if matches!(c, '\n' | '\r') { c } else { ' ' }));
            done = end;
        }
    }
    out.push_str(&source[done..]);
    out
}

struct Eraser<'s> {
    source: &'s str,
    scoping: &'s Scoping,
    /// Byte ranges to blank.
    spans: Vec<(usize, usize)>,
}

impl Eraser<'_> {
    fn blank(&mut self, span: Span) {
        self.range(span.start, span.end);
    }

    fn range(&mut self, start: u32, end: u32) {
        self.spans.push((start as usize, end as usize));
    }

    /// Blanks `mark` where it is the next token after `from`.
    fn mark(&mut self, from: u32, mark: char) {
        let start = self.next_token(from as usize);
        if self.source[start..].starts_with(mark) {
            self.spans.push((start, start + mark.len_utf8()));
        }
    }

    /// Where the next token begins: behind blanks and comments.
    fn next_token(&self, mut at: usize) -> usize {
        loop {
            let rest = &self.source[at..];
            let trimmed = rest.trim_start();
            at += rest.len() - trimmed.len();
            let comment = if trimmed.starts_with("//") {
                trimmed.find('\n')
            } else if trimmed.starts_with("/*") {
                trimmed.find("*/").map(|end| end + 2)
            } else {
                return at;
            };
            at = comment.map_or(self.source.len(), |length| at + length);
        }
    }

    /// Blanks TypeScript's modifiers between `start` and `end`.
    fn modifiers(&mut self, start: u32, end: u32) {
        let mut at = self.next_token(start as usize);
        while at < end as usize {
            let word = self.source[at..end as usize].split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("");
            if MODIFIERS.contains(&word) {
                self.spans.push((at, at + word.len()));
            }
            at = self.next_token(at + word.len().max(1));
        }
    }

    /// Blanks a specifier or parameter with the comma behind it.
    fn with_comma(&mut self, span: Span) {
        self.blank(span);
        self.mark(span.end, ',');
    }

    fn used_as_value(&self, binding: &BindingIdentifier<'_>) -> bool {
        self.scoping.get_resolved_references(binding.symbol_id()).any(|reference| !reference.is_type())
    }

    fn names_a_type(&self, name: &ModuleExportName<'_>) -> bool {
        let ModuleExportName::IdentifierReference(identifier) = name else { return false };
        let reference = self.scoping.get_reference(identifier.reference_id());
        reference.symbol_id().is_some_and(|symbol| {
            reference.is_type()
                || self.scoping.symbol_flags(symbol).is_type() && !self.scoping.symbol_flags(symbol).is_value()
        })
    }

    fn export_specifiers(&mut self, whole: Span, kind: ImportOrExportKind, specifiers: &[ExportSpecifier<'_>]) {
        let erased: Vec<bool> = specifiers
            .iter()
            .map(|specifier| specifier.export_kind.is_type() || self.names_a_type(&specifier.local))
            .collect();
        if kind.is_type() || !erased.is_empty() && erased.iter().all(|erased| *erased) {
            return self.blank(whole);
        }
        for (specifier, _) in specifiers.iter().zip(erased).filter(|(_, erased)| *erased) {
            self.with_comma(specifier.span);
        }
    }

    fn import_specifiers(&mut self, whole: Span, specifiers: &[ImportDeclarationSpecifier<'_>]) {
        let kept = |eraser: &Self, specifier: &ImportDeclarationSpecifier<'_>| match specifier {
            ImportDeclarationSpecifier::ImportSpecifier(it) => {
                !it.import_kind.is_type() && eraser.used_as_value(&it.local)
            }
            ImportDeclarationSpecifier::ImportDefaultSpecifier(it) => eraser.used_as_value(&it.local),
            ImportDeclarationSpecifier::ImportNamespaceSpecifier(it) => eraser.used_as_value(&it.local),
        };
        let kept: Vec<bool> = specifiers.iter().map(|specifier| kept(self, specifier)).collect();
        if !kept.is_empty() && !kept.iter().any(|kept| *kept) {
            return self.blank(whole);
        }
        for (index, (specifier, kept)) in specifiers.iter().zip(kept).enumerate() {
            match specifier {
                _ if kept => {}
                // `import a, * as b`: the comma stands before.
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(it) if index > 0 => {
                    self.range(specifiers[index - 1].span().end, it.span.end);
                }
                _ => self.with_comma(specifier.span()),
            }
        }
    }
}

/// Nothing of it runs.
fn only_types(declaration: &Declaration<'_>) -> bool {
    match declaration {
        Declaration::VariableDeclaration(it) => it.declare,
        Declaration::FunctionDeclaration(it) => it.declare || it.body.is_none(),
        Declaration::ClassDeclaration(it) => it.declare,
        _ => true,
    }
}

impl<'a> Visit<'a> for Eraser<'_> {
    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        self.blank(it.span);
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.blank(it.span);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.blank(it.span);
    }

    fn visit_ts_this_parameter(&mut self, it: &TSThisParameter<'a>) {
        self.with_comma(it.span);
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.range(it.expression.span().end, it.span.end);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.range(it.expression.span().end, it.span.end);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.range(it.expression.span().end, it.span.end);
        self.visit_expression(&it.expression);
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        if it.optional {
            self.mark(it.pattern.span().end, '?');
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if it.definite {
            self.mark(it.id.span().end, '!');
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        if it.declare || it.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition {
            return self.blank(it.span);
        }
        self.modifiers(it.span.start, it.key.span().start);
        let name_end = it.type_annotation.as_ref().map(|annotation| annotation.span.start);
        if let Some(name_end) = name_end.filter(|_| it.optional || it.definite) {
            self.range(name_end - 1, name_end);
        } else if it.optional {
            self.mark(it.key.span().end, '?');
        }
        walk::walk_property_definition(self, it);
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        if it.r#type == MethodDefinitionType::TSAbstractMethodDefinition || it.value.body.is_none() {
            return self.blank(it.span);
        }
        self.modifiers(it.span.start, it.key.span().start);
        if it.optional {
            self.mark(it.key.span().end, '?');
        }
        walk::walk_method_definition(self, it);
    }

    fn visit_ts_index_signature(&mut self, it: &TSIndexSignature<'a>) {
        self.blank(it.span);
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        if it.declare {
            return self.blank(it.span);
        }
        if it.r#abstract {
            let name = it.id.as_ref().map_or(it.body.span.start, |id| id.span.start);
            self.modifiers(it.span.start, name);
        }
        if let (Some(first), Some(last)) = (it.implements.first(), it.implements.last()) {
            let before = self.source[..first.span.start as usize].rfind("implements");
            let start = before.and_then(|start| u32::try_from(start).ok()).unwrap_or(first.span.start);
            self.range(start, last.span.end);
        }
        walk::walk_class(self, it);
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        if it.declare || it.body.is_none() {
            return self.blank(it.span);
        }
        walk::walk_function(self, it, flags);
    }

    fn visit_variable_declaration(&mut self, it: &VariableDeclaration<'a>) {
        if it.declare {
            return self.blank(it.span);
        }
        walk::walk_variable_declaration(self, it);
    }

    fn visit_ts_type_alias_declaration(&mut self, it: &TSTypeAliasDeclaration<'a>) {
        self.blank(it.span);
    }

    fn visit_ts_interface_declaration(&mut self, it: &TSInterfaceDeclaration<'a>) {
        self.blank(it.span);
    }

    fn visit_ts_enum_declaration(&mut self, it: &TSEnumDeclaration<'a>) {
        self.blank(it.span);
    }

    fn visit_ts_external_module_declaration(&mut self, it: &TSExternalModuleDeclaration<'a>) {
        self.blank(it.span);
    }

    fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
        self.blank(it.span);
    }

    fn visit_ts_global_declaration(&mut self, it: &TSGlobalDeclaration<'a>) {
        self.blank(it.span);
    }

    fn visit_export_declaration(&mut self, it: &ExportDeclaration<'a>) {
        if only_types(&it.declaration) {
            return self.blank(it.span);
        }
        walk::walk_export_declaration(self, it);
    }

    fn visit_export_default_declaration(&mut self, it: &ExportDefaultDeclaration<'a>) {
        let only_types = match &it.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(function) => function.body.is_none(),
            ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => true,
            _ => false,
        };
        if only_types {
            return self.blank(it.span);
        }
        walk::walk_export_default_declaration(self, it);
    }

    fn visit_export_named_declaration(&mut self, it: &ExportNamedDeclaration<'a>) {
        self.export_specifiers(it.span, it.export_kind, &it.specifiers);
    }

    fn visit_export_from_declaration(&mut self, it: &ExportFromDeclaration<'a>) {
        self.export_specifiers(it.span, it.export_kind, &it.specifiers);
    }

    fn visit_export_all_declaration(&mut self, it: &ExportAllDeclaration<'a>) {
        if it.export_kind.is_type() {
            self.blank(it.span);
        }
    }

    fn visit_import_declaration(&mut self, it: &ImportDeclaration<'a>) {
        if it.import_kind.is_type() {
            return self.blank(it.span);
        }
        self.import_specifiers(it.span, it.specifiers.as_ref().map_or(&[], |list| list.as_slice()));
    }
}
