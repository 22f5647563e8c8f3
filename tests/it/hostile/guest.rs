//! The guests of `tests/hostile`: files of WebAssembly text whose first lines say what is to come of them.
//!
//! A file is a whole module or component, or what `prelude.wat` lacks to be one. One of `both/` defines `$evil` alone, and makes
//! two guests: it is done in workflow code, and in a step's body.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

/// A guest, and what its file says of it.
pub(crate) struct Guest {
    /// Its file's name, and where it does what it does.
    pub(crate) name: String,
    /// What is to come of it.
    pub(crate) verdict: String,
    /// The file's other first lines: `journal: 1 attempt_ended` is `("journal", "1 attempt_ended")`.
    pub(crate) also: Vec<(String, String)>,
    /// The component, or why it cannot become one.
    pub(crate) component: Result<Vec<u8>, String>,
}

/// The computing time that a guest's turns have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Budget {
    /// Half a second: for guests that never end.
    Short,
    /// What a run has where nobody says.
    Default,
}

impl Guest {
    /// What the file says under this word, a line each.
    pub(crate) fn says<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        self.also.iter().filter(move |(other, _)| other == word).map(|(_, text)| text.as_str())
    }

    pub(crate) fn budget(&self) -> Budget {
        if self.says("budget").any(|text| text == "default") { Budget::Default } else { Budget::Short }
    }
}

/// The guests of a folder, by name.
pub(crate) fn guests(folder: &str) -> Vec<Guest> {
    let mut paths: Vec<PathBuf> = fs::read_dir(root().join(folder))
        .unwrap_or_else(|error| panic!("{folder}: {error}"))
        .map(|file| file.expect("a folder can be listed").path())
        .collect();
    paths.sort();
    paths.iter().flat_map(guests_of).collect()
}

/// The component of a guest that is made in a test: `text` has what `prelude.wat` lacks.
pub(crate) fn made(text: &str) -> Vec<u8> {
    component(&whole(text, "")).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// `$evil` done in a step's body, or in workflow code.
pub(crate) fn doing(evil: &str, in_a_body: bool) -> Vec<u8> {
    let place = if in_a_body { "in-a-body" } else { "in-workflow-code" };
    component(&whole(evil, &wrapper(place))).unwrap_or_else(|error| panic!("{evil}: {error}"))
}

fn guests_of(path: &PathBuf) -> Vec<Guest> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
    let first = text.lines().map_while(|line| line.strip_prefix(";; "));
    let said: Vec<(String, String)> =
        first.filter_map(|line| line.split_once(": ")).map(|(word, rest)| (word.to_owned(), rest.to_owned())).collect();
    let of = |word: &str| said.iter().find(|(other, _)| other == word).map(|(_, text)| text.clone());
    let made = |place: Option<&str>, verdict: String| Guest {
        name: place.map_or_else(|| name.clone(), |place| format!("{name} {place}")),
        verdict,
        also: said.clone(),
        component: component(&whole(&text, &place.map(wrapper).unwrap_or_default())),
    };
    let mut guests = Vec::new();
    for (word, place) in [("in workflow code", "in-workflow-code"), ("in a body", "in-a-body")] {
        if let Some(verdict) = of(word) {
            guests.push(made(Some(place), verdict));
        }
    }
    if let Some(verdict) = of("verdict") {
        guests.push(made(of("body").as_deref(), verdict));
    }
    assert!(!guests.is_empty(), "{} does not say what is to come of it", path.display());
    guests
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("hostile")
}

fn wrapper(place: &str) -> String {
    fs::read_to_string(root().join(format!("{place}.wat"))).unwrap_or_else(|error| panic!("{place}: {error}"))
}

/// A whole module from a file's text.
fn whole(text: &str, wrapper: &str) -> String {
    static PRELUDE: LazyLock<String> =
        LazyLock::new(|| fs::read_to_string(root().join("prelude.wat")).expect("the prelude is there"));
    let code = text.lines().find(|line| !line.starts_with(";;")).unwrap_or_default();
    if code.starts_with("(module") || code.starts_with("(component") {
        return text.to_owned();
    }
    // A module's imports come before everything else.
    let (imports, rest): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with("(import"));
    let describe = if text.contains("$describe-otherwise") { "$describe-otherwise" } else { "$describe" };
    let (imports, rest) = (imports.join("\n"), rest.join("\n"));
    format!(
        r#"(module
{imports}
{}
{rest}
{wrapper}
  (func (export "stepwell:workflow/workflows@0.1.0#run") (param i32 i32 i32 i32) (result i32) (call $run))
  (func (export "stepwell:workflow/workflows@0.1.0#describe") (result i32) (call {describe})))"#,
        *PRELUDE
    )
}

/// A component as it is; a core module as toolchains make it, with the contract embedded and made a component by Stepwell.
fn component(text: &str) -> Result<Vec<u8>, String> {
    static CONTRACT: LazyLock<(Resolve, WorldId)> = LazyLock::new(|| {
        let mut resolve = Resolve::default();
        let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-sdk/wit");
        let (package, _) = resolve.push_path(wit).expect("the contract is there");
        let world = resolve.select_world(&[package], Some("workflow")).expect("it has its world");
        (resolve, world)
    });
    let mut bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"));
    if !bytes.starts_with(b"\0asm\x01\0\0\0") {
        return Ok(bytes);
    }
    let (resolve, world) = &*CONTRACT;
    embed_component_metadata(&mut bytes, resolve, *world, StringEncoding::UTF8)
        .map_err(|error| format!("{error:#}"))?;
    stepwell_build::embed_core_module(&bytes).map_err(|error| error.to_string())
}
