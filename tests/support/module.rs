//! A workflow module, built and compiled once for however many data directories run it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::project::Project;
use crate::rust_guest;

/// A built component, with its compiled form to be put into data directories.
pub struct Module {
    _dir: TempDir,
    wasm: PathBuf,
    compiled: PathBuf,
}

impl Module {
    /// Builds TypeScript or JavaScript source. `name` is its file's, e.g. `effects.ts`.
    #[must_use]
    pub fn build(name: &str, source: &str) -> Self {
        let project = Project::new();
        let file = project.write(name, source);
        Self::built(project, &file)
    }

    /// The guests of `tests/guests/rust`, from the core module that Rust's compiler makes of them.
    ///
    /// # Panics
    /// If they do not build; where nothing is installed that could build them, with what to install.
    #[must_use]
    pub fn rust() -> Self {
        Self::built(Project::new(), &rust_guest::core_module())
    }

    /// A component that there is already, as it is.
    ///
    /// # Panics
    /// If it cannot be copied, or is not taken.
    #[must_use]
    pub fn of(component: &Path) -> Self {
        let project = Project::new();
        std::fs::copy(component, project.path().join("module.wasm")).expect("a component can be copied");
        Self::compiled(project)
    }

    fn built(project: Project, file: &Path) -> Self {
        let (source, out) = (file.display().to_string(), project.path().join("module.wasm").display().to_string());
        project.stepwell(&["build", &source, "-o", &out]).expect_code(0);
        Self::compiled(project)
    }

    /// The project's `module.wasm`.
    fn compiled(project: Project) -> Self {
        let wasm = project.path().join("module.wasm");
        let out = wasm.display().to_string();
        // A workflow that does not exist: the module is compiled, and nothing is run.
        project.stepwell(&["run", &out, "there is no such workflow"]).expect_code(2);
        let compiled = project.data_dir().join("compiled");
        assert!(compiled.is_dir(), "the data directory keeps compiled modules in {}", compiled.display());
        Self { wasm, compiled, _dir: project.into_dir() }
    }

    /// The component's file.
    #[must_use]
    pub fn wasm(&self) -> &Path {
        &self.wasm
    }

    /// Spares a data directory the compiling.
    ///
    /// # Panics
    /// If the compiled form cannot be put there.
    pub fn put_into(&self, data_dir: &Path) {
        let there = data_dir.join("compiled");
        std::fs::create_dir_all(&there).expect("the data directory can be made");
        for file in std::fs::read_dir(&self.compiled).expect("the compiled modules can be listed") {
            let file = file.expect("the compiled modules can be listed");
            let to = there.join(file.file_name());
            if !to.exists() {
                std::fs::hard_link(file.path(), to).expect("a compiled module can be linked");
            }
        }
    }
}
