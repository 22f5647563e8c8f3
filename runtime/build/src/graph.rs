//! The entry and everything that it imports, read, resolved and made JavaScript before anything is evaluated, so that all
//! errors are found at once and each has a place.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use oxc_resolver::{ResolveContext, ResolveError, ResolveOptions, Resolver};

use crate::typescript::{self, Request};
use crate::{BuildError, Diagnostic, sdk};

/// All modules of a build but the SDK's.
pub(crate) struct Graph {
    /// The entry's name.
    pub(crate) entry: String,
    /// By name: the path relative to the entry's folder, as it stands in stack traces.
    pub(crate) modules: BTreeMap<String, Module>,
    /// The files, the entry first.
    pub(crate) sources: Vec<PathBuf>,
}

/// One module.
pub(crate) struct Module {
    /// The file's text.
    pub(crate) source: String,
    /// What QuickJS is given.
    pub(crate) js: String,
    /// The module that each specifier names.
    pub(crate) imports: BTreeMap<String, String>,
}

impl Graph {
    /// The name of the module that `specifier` means in `referrer`.
    pub(crate) fn resolve(&self, referrer: &str, specifier: &str) -> Option<String> {
        if referrer == sdk::ENTRY && specifier == self.entry {
            return Some(self.entry.clone());
        }
        sdk::resolve(referrer, specifier).or_else(|| self.modules.get(referrer)?.imports.get(specifier).cloned())
    }
}

/// Reads `entry` and, breadth first, all that it imports. `alone`: it may import nothing but the SDK, and no other file is looked at.
pub(crate) fn read(entry: &Path, alone: bool) -> Result<Graph, BuildError> {
    let entry = entry.canonicalize().map_err(|error| BuildError::Read { path: entry.to_owned(), error })?;
    let root = entry.parent().unwrap_or(&entry).to_owned();
    let mut reader =
        Reader { resolver: resolver(), alone, root, queue: VecDeque::new(), sources: Vec::new(), errors: Vec::new() };
    let name = reader.enqueue(entry);
    let mut modules = BTreeMap::new();
    while let Some((name, path)) = reader.queue.pop_front() {
        let module = reader.module(&name, &path)?;
        modules.insert(name, module);
    }
    if reader.errors.is_empty() {
        Ok(Graph { entry: name, modules, sources: reader.sources })
    } else {
        Err(BuildError::Source(reader.errors))
    }
}

fn resolver() -> Resolver {
    let strings = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    Resolver::new(ResolveOptions {
        // Of a package that has a form for browsers and one for Node, the first needs the web's globals alone, which are here.
        condition_names: strings(&["stepwell", "worker", "browser", "import", "default"]),
        extensions: strings(&[".ts", ".mts", ".js", ".mjs", ".json"]),
        // TypeScript's authors write the extension that the file will have once compiled.
        extension_alias: vec![(".js".into(), strings(&[".js", ".ts"])), (".mjs".into(), strings(&[".mjs", ".mts"]))],
        main_fields: strings(&["module", "main"]),
        builtin_modules: true,
        ..ResolveOptions::default()
    })
}

struct Reader {
    resolver: Resolver,
    alone: bool,
    root: PathBuf,
    queue: VecDeque<(String, PathBuf)>,
    sources: Vec<PathBuf>,
    errors: Vec<Diagnostic>,
}

impl Reader {
    /// The name of the module at `path`, which is read in its turn, once.
    fn enqueue(&mut self, path: PathBuf) -> String {
        let name = relative(&self.root, &path);
        if !self.sources.contains(&path) {
            self.sources.push(path.clone());
            self.queue.push_back((name.clone(), path));
        }
        name
    }

    fn module(&mut self, name: &str, path: &Path) -> Result<Module, BuildError> {
        let source = fs::read_to_string(path).map_err(|error| BuildError::Read { path: path.to_owned(), error })?;
        let mut module = Module { source, js: String::new(), imports: BTreeMap::new() };
        match typescript::to_javascript(name, path, &module.source) {
            Err(wrong) => {
                self.errors.extend(wrong.errors);
                // Some of these may be needed for types only, so one that cannot be found is no error.
                for request in wrong.requests {
                    let _ = self.target(name, path, &module.source, &request);
                }
            }
            Ok(parsed) => {
                module.js = parsed.js;
                for request in parsed.requests {
                    match self.target(name, path, &module.source, &request) {
                        Ok(target) => drop(module.imports.insert(request.specifier, target)),
                        Err(error) => self.errors.push(error),
                    }
                }
            }
        }
        Ok(module)
    }

    /// The name of the module that a request means.
    fn target(&mut self, name: &str, path: &Path, source: &str, request: &Request) -> Result<String, Diagnostic> {
        let specifier = &request.specifier;
        if let Some(sdk) = sdk::resolve(name, specifier) {
            return Ok(sdk);
        }
        let error = |message: String| Diagnostic::at(name, source, request.start, request.end, message);
        if self.alone {
            let help = "only \"stepwell\" can be imported here; build it with `stepwell build`, and use the component";
            return Err(error(format!("\"{specifier}\" would be another file, and this one stands alone")).help(help));
        }
        let directory = path.parent().unwrap_or(path);
        let mut tried = ResolveContext::default();
        match self.resolver.resolve_with_context(directory, specifier, None, &mut tried) {
            Ok(resolution) => Ok(self.enqueue(resolution.into_path_buf())),
            Err(ResolveError::Builtin { resolved, .. }) => {
                Err(error(format!("\"{specifier}\" is a module of Node.js, which a workflow's sandbox does not have"))
                    .help(advice(&resolved)))
            }
            Err(ResolveError::NotFound(_)) => {
                let mut tried: Vec<_> =
                    tried.missing_dependencies.iter().map(|path| relative(&self.root, path)).collect();
                tried.sort();
                tried.truncate(12);
                let tried = if tried.is_empty() { String::new() } else { format!("tried {}", tried.join(", ")) };
                Err(error(format!("cannot find the module \"{specifier}\"")).help(tried))
            }
            Err(other) => Err(error(format!("cannot resolve \"{specifier}\": {other}"))),
        }
    }
}

/// What to use instead of a module of Node.js.
fn advice(builtin: &str) -> &'static str {
    match builtin.trim_start_matches("node:") {
        "http" | "https" | "net" | "tls" | "http2" => "use the `http` or `fetch` that a step's body is given",
        "fs" | "fs/promises" => "files are out of reach: pass data in the run's input, or fetch it in a step",
        "crypto" => "the global `crypto` has randomUUID, getRandomValues and subtle.digest",
        "timers" | "timers/promises" => "use `sleep` in the workflow, and `delay` in a step's body",
        "url" | "buffer" | "util" => "`URL`, `Uint8Array`, `TextEncoder` and `structuredClone` are globals",
        _ => "use what the language and the module \"stepwell\" offer, or a package that needs no Node.js",
    }
}

/// `path` as seen from `root`, with `/` between its parts.
fn relative(root: &Path, path: &Path) -> String {
    let mut root = root.components().peekable();
    let mut rest = path.components().peekable();
    while root.peek().is_some() && root.peek() == rest.peek() {
        root.next();
        rest.next();
    }
    let up = root.map(|_| "..".to_owned());
    let down = rest.map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}
