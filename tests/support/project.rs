//! A directory of its own for a test: sources, a data directory, and `stepwell` run in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{self, Stepwell};
use crate::module::Module;
use crate::process::{Finished, Running};

/// A temporary directory, gone with the value.
pub struct Project {
    dir: TempDir,
}

impl Default for Project {
    fn default() -> Self {
        Self::new()
    }
}

impl Project {
    /// An empty one.
    ///
    /// # Panics
    /// If there is no place for temporary files.
    #[must_use]
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory can be made") }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn into_dir(self) -> TempDir {
        self.dir
    }

    /// Where its runs are kept.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Holds the process id of the `stepwell` that was started last. It is there before that program runs.
    #[must_use]
    pub fn pid_file(&self) -> PathBuf {
        self.path().join("stepwell.pid")
    }

    /// Writes a file and answers its path.
    ///
    /// # Panics
    /// If it cannot.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// Starts `stepwell` with these arguments, in this directory and with its data directory.
    #[must_use]
    pub fn spawn(&self, args: &[&str]) -> Running {
        self.spawn_with(args, &[])
    }

    /// The same, with these environment variables.
    #[must_use]
    pub fn spawn_with(&self, args: &[&str], env: &[(&str, &str)]) -> Running {
        // The shell becomes the program, so that its process id is written before it runs.
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo $$ >"$PID_FILE"; exec "$@""#, "sh"]).arg(Stepwell::path()).args(args);
        binary::bare(&mut command);
        command.current_dir(self.path()).env("PID_FILE", self.pid_file()).env("STEPWELL_DATA_DIR", self.data_dir());
        command.envs(env.iter().copied());
        Running::spawn(command)
    }

    /// Runs `stepwell` to its end. Its process id is not written: this looks at runs beside a program that drives them.
    #[must_use]
    pub fn stepwell(&self, args: &[&str]) -> Finished {
        let mut command = Stepwell::command();
        command.args(args).current_dir(self.path()).env("STEPWELL_DATA_DIR", self.data_dir());
        Running::spawn(command).wait()
    }

    /// Starts a run of a built module: `stepwell run MODULE WORKFLOW --input INPUT --json`.
    #[must_use]
    pub fn run(&self, module: &Module, workflow: &str, input: &Value) -> Running {
        self.run_with(module, workflow, input, &[], &[])
    }

    /// The same, with further arguments and environment variables.
    #[must_use]
    pub fn run_with(
        &self,
        module: &Module,
        workflow: &str,
        input: &Value,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Running {
        module.put_into(&self.data_dir());
        let (wasm, input) = (module.wasm().display().to_string(), input.to_string());
        let mut all = vec!["run", &wasm, workflow, "--input", &input, "--json"];
        all.extend(args);
        self.spawn_with(&all, env)
    }

    /// Goes on with a run: `stepwell run --resume RUN --json`.
    #[must_use]
    pub fn resume(&self, run: &str) -> Running {
        self.spawn(&["run", "--resume", run, "--json"])
    }

    /// The runs of the data directory, the latest first, as `stepwell runs list --json` shows them; none where it has no data.
    #[must_use]
    pub fn runs(&self, args: &[&str]) -> Vec<Value> {
        if !self.data_dir().join("stepwell.db").exists() {
            return Vec::new();
        }
        let mut all = vec!["runs", "list", "--json"];
        all.extend(args);
        self.stepwell(&all).expect_code(0).events
    }

    /// The only run's id.
    ///
    /// # Panics
    /// If there is none, or more than one.
    #[must_use]
    pub fn only_run(&self) -> String {
        match &self.runs(&[])[..] {
            [run] => run["run"].as_str().expect("a run has an id").to_owned(),
            other => panic!("not one run: {other:#?}"),
        }
    }

    /// A run as `stepwell runs show --json` shows it.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn show(&self, run: &str) -> Value {
        self.stepwell(&["runs", "show", run, "--json"]).expect_code(0).events.remove(0)
    }

    /// The entries of a run's durable journal: `seq`, `atMs`, `entry`.
    #[must_use]
    pub fn journal(&self, run: &str) -> Vec<Value> {
        self.stepwell(&["runs", "journal", run, "--json"]).expect_code(0).events
    }
}
