//! What a file uses: whether its types can simply be erased, and what cannot be built at all.

use oxc::ast::ast::*;
use oxc::ast_visit::{Visit, walk};
use oxc::semantic::Scoping;
use oxc::span::Span;

/// What was found.
pub(crate) struct Survey {
    /// Blanking the types leaves JavaScript that means the same.
    pub(crate) erasable: bool,
    /// What cannot be built, and why.
    pub(crate) refused: Vec<(Span, &'static str)>,
}

pub(crate) fn survey(program: &Program<'_>, typescript: bool) -> Survey {
    let mut survey = Survey { erasable: typescript, refused: Vec::new() };
    survey.visit_program(program);
    survey
}

/// Where a file without module syntax uses what only CommonJS has.
pub(crate) fn common_js(program: &Program<'_>, scoping: &Scoping) -> Option<Span> {
    struct Find<'s>(&'s Scoping, Option<Span>);
    impl<'a> Visit<'a> for Find<'_> {
        fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
            let global = self.0.get_reference(it.reference_id()).symbol_id().is_none();
            if self.1.is_none() && global && matches!(it.name.as_str(), "require" | "module" | "exports") {
                self.1 = Some(it.span);
            }
        }
    }
    let mut find = Find(scoping, None);
    find.visit_program(program);
    find.1
}

const DECORATOR: &str = "decorators are not supported by the JavaScript runtime; call a function instead";

impl<'a> Visit<'a> for Survey {
    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.refused.push((it.span, DECORATOR));
    }

    fn visit_ts_enum_declaration(&mut self, it: &TSEnumDeclaration<'a>) {
        self.erasable &= it.declare;
    }

    fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
        self.erasable &= it.declare;
    }

    fn visit_ts_import_equals_declaration(&mut self, _: &TSImportEqualsDeclaration<'a>) {
        self.erasable = false;
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        self.refused.push((it.span, "`export =` is CommonJS: write `export default`"));
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        self.erasable = false;
        walk::walk_ts_type_assertion(self, it);
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        self.erasable &= it.accessibility.is_none() && !it.readonly && !it.r#override;
        walk::walk_formal_parameter(self, it);
    }
}
