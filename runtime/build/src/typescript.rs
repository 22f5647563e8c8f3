//! One source file made JavaScript whose lines are those of the source, so that stack traces need no map.
//!
//! JavaScript stays as it is, but for promises that a statement lets go (`floating`). Of TypeScript whose types can simply be erased every character keeps its place (`erase`). Enums,
//! namespaces and parameter properties are transformed by oxc, and what it prints is laid out on the source's lines again
//! (`realign`). Types are not checked.

mod erase;
mod floating;
mod realign;
mod survey;

use std::path::Path;

use oxc::allocator::Allocator;
use oxc::ast::ast::Program;
use oxc::codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc::diagnostics::OxcDiagnostic;
use oxc::parser::{Parser, ParserReturn};
use oxc::semantic::{Scoping, SemanticBuilder};
use oxc::span::SourceType;
use oxc::transformer::{TransformOptions, Transformer};

use crate::Diagnostic;

pub(crate) use floating::column_in_source;

/// A file as QuickJS takes it.
pub(crate) struct Parsed {
    pub(crate) js: String,
    pub(crate) requests: Vec<Request>,
}

/// A module that the file asks for, and where.
pub(crate) struct Request {
    pub(crate) specifier: String,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A file with errors, all that can be found, in order.
pub(crate) struct Wrong {
    pub(crate) errors: Vec<Diagnostic>,
    /// What it asks for as far as it could be read, types included: for finding the errors of other files too.
    pub(crate) requests: Vec<Request>,
}

impl From<Vec<Diagnostic>> for Wrong {
    fn from(errors: Vec<Diagnostic>) -> Self {
        Self { errors, requests: Vec::new() }
    }
}

/// Makes JavaScript of the file's text.
pub(crate) fn to_javascript(name: &str, path: &Path, source: &str) -> Result<Parsed, Wrong> {
    let language = match path.extension().and_then(|extension| extension.to_str()) {
        Some("ts" | "mts") => SourceType::ts(),
        Some("js" | "mjs") => SourceType::mjs(),
        Some("json") => return Ok(json(name, source)?),
        Some("cjs" | "cts") => return Err(vec![common_js(name, source, 0, 0)].into()),
        _ => {
            let message = "only .ts, .mts, .js, .mjs and .json files can be part of a workflow (no JSX)";
            return Err(vec![Diagnostic::at(name, source, 0, 0, message)].into());
        }
    };
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, language).parse();
    let mut errors = diagnostics(name, source, parsed.diagnostics.errors());
    if parsed.panicked {
        return Err(errors.into());
    }
    let ParserReturn { mut program, module_record, .. } = parsed;
    let semantic = SemanticBuilder::new().with_check_syntax_error(true).with_enum_eval(true).build(&program);
    errors.extend(diagnostics(name, source, semantic.diagnostics.errors()));
    let scoping = semantic.semantic.into_scoping();
    let survey = survey::survey(&program, language.is_typescript());
    errors.extend(
        survey
            .refused
            .iter()
            .map(|(span, message)| Diagnostic::at(name, source, span.start as usize, span.end as usize, *message)),
    );
    // A package's own dynamic import may sit behind a test that never holds here; an author's is meant.
    if !is_of_a_package(path) {
        errors.extend(module_record.dynamic_imports.iter().map(|import| {
            Diagnostic::at(
                name,
                source,
                import.span.start as usize,
                import.span.end as usize,
                "`import()` is not available",
            )
            .help("modules are linked when the workflow is built: use an `import` declaration at the top of the file")
        }));
    }
    if !module_record.has_module_syntax
        && let Some(span) = survey::common_js(&program, &scoping)
    {
        errors.push(common_js(name, source, span.start as usize, span.end as usize));
    }
    if !errors.is_empty() {
        errors.sort_by_key(|error| (error.line, error.column));
        errors.dedup();
        return Err(Wrong { errors, requests: requests(source, language, source, &module_record) });
    }
    let js = if language.is_typescript() {
        let erased = survey.erasable.then(|| erase::erase(source, &program, &scoping));
        let transformed = transform(name, path, source, &allocator, &mut program, scoping)?;
        match erased.filter(|erased| same_program(erased, &transformed)) {
            Some(erased) => erased,
            None => transformed,
        }
    } else {
        source.to_owned()
    };
    let requests = requests(&js, SourceType::mjs(), source, &module_record);
    // A package's own promises are its own business.
    let js = if is_of_a_package(path) { js } else { floating::watch(&js) };
    Ok(Parsed { js, requests })
}

fn is_of_a_package(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "node_modules")
}

/// Enums and their like, by oxc.
fn transform<'a>(
    name: &str,
    path: &Path,
    source: &'a str,
    allocator: &'a Allocator,
    program: &mut Program<'a>,
    scoping: Scoping,
) -> Result<String, Vec<Diagnostic>> {
    let transformed =
        Transformer::new(allocator, path, &TransformOptions::default()).build_with_scoping(scoping, program);
    let errors = diagnostics(name, source, transformed.diagnostics.errors());
    if !errors.is_empty() {
        return Err(errors);
    }
    // A comment at a line's end would swallow the line that is joined to it.
    let options = CodegenOptions {
        source_map_path: Some(path.to_owned()),
        comments: CommentOptions::disabled(),
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).with_source_text(source).build(program);
    Ok(match printed.map {
        Some(map) => {
            let tokens = map.get_tokens().filter(|token| token.get_source_id().is_some());
            let tokens = tokens.map(|token| realign::Token {
                printed_line: token.get_dst_line(),
                line: token.get_src_line(),
                column: token.get_src_col(),
            });
            realign::realign(&printed.code, tokens)
        }
        None => printed.code,
    })
}

/// Whether two texts are the same program, wherever its parts stand.
fn same_program(a: &str, b: &str) -> bool {
    let normal = |text: &str| {
        let allocator = Allocator::default();
        let parsed = Parser::new(&allocator, text, SourceType::mjs()).parse();
        if parsed.diagnostics.has_errors() {
            return None;
        }
        let options =
            CodegenOptions { minify: true, comments: CommentOptions::disabled(), ..CodegenOptions::default() };
        let mut printed = Codegen::new().with_options(options).build(&parsed.program).code;
        // The transformer marks a module that lost its last import or export; it is evaluated as a module regardless.
        printed
            .truncate(printed.trim_end_matches(['\n', ';']).trim_end_matches("export{}").trim_end_matches(';').len());
        Some(printed)
    };
    normal(a).is_some_and(|a| Some(a) == normal(b))
}

/// What the JavaScript asks for: not what only types were imported from. The places are those of the source.
fn requests(
    js: &str,
    language: SourceType,
    source: &str,
    original: &oxc::syntax::module_record::ModuleRecord<'_>,
) -> Vec<Request> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, js, language).parse();
    let mut requests = Vec::new();
    for specifier in parsed.module_record.requested_modules.keys() {
        let places = original.requested_modules.iter().find(|(name, _)| name.as_str() == specifier.as_str());
        let place = places.and_then(|(_, places)| places.iter().find(|place| !place.is_type).or(places.first()));
        let span = place.map_or((0, source.len().min(1)), |place| (place.span.start as usize, place.span.end as usize));
        requests.push(Request { specifier: specifier.to_string(), start: span.0, end: span.1 });
    }
    requests.sort_by(|a, b| (a.start, &a.specifier).cmp(&(b.start, &b.specifier)));
    requests
}

fn json(name: &str, source: &str) -> Result<Parsed, Vec<Diagnostic>> {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(source) {
        let line = source.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
        let start = line + error.column().saturating_sub(1);
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or(&text);
        return Err(vec![Diagnostic::at(name, source, start, start + 1, format!("this is not JSON: {text}"))]);
    }
    let js = format!("export default JSON.parse({});\n", serde_json::Value::from(source));
    Ok(Parsed { js, requests: Vec::new() })
}

fn common_js(name: &str, source: &str, start: usize, end: usize) -> Diagnostic {
    Diagnostic::at(name, source, start, end, "this file is a CommonJS module (`require`, `module.exports`)").help(
        "workflows are made of ES modules: use a version of the package that has them, or bundle it into one (e.g. with \
         esbuild --format=esm) beforehand",
    )
}

fn diagnostics<'d>(name: &str, source: &str, errors: impl Iterator<Item = &'d OxcDiagnostic>) -> Vec<Diagnostic> {
    let convert = |error: &OxcDiagnostic| {
        let label = error.labels.iter().find(|label| label.primary()).or(error.labels.first());
        let (start, end) = label.map_or((0, 0), |label| (label.offset(), label.offset() + label.len()));
        let diagnostic = Diagnostic::at(name, source, start as usize, end as usize, error.message.to_string());
        let mut notes: Vec<_> = label.and_then(|label| label.label().map(str::to_owned)).into_iter().collect();
        for other in error.labels.iter().filter(|other| label.is_some_and(|label| *label != **other)) {
            let place = Diagnostic::at(name, source, other.offset() as usize, other.offset() as usize, "");
            notes.push(format!("{}:{}: {}", place.line, place.column, other.label().unwrap_or("here as well")));
        }
        notes.extend(error.help.iter().map(ToString::to_string));
        if notes.is_empty() { diagnostic } else { diagnostic.help(notes.join("\n")) }
    };
    errors.map(convert).collect()
}

#[cfg(test)]
mod tests;
