//! The binary from outside: its size, how soon it is at work, what it takes while it has nothing to do, the time of a build.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::figures::{Figures, Rounds};
use crate::lab::Lab;
use crate::machine::resident;
use crate::report::{At, Report};
use crate::runs::millis;
use crate::sleeping::megabytes;

const MS: &str = "ms";
const MB: &str = "mb";

pub(crate) fn measure(lab: &Lab, report: &mut Report) -> Result<()> {
    let Some(binary) = binary()? else {
        report.note("No `stepwell` beside this program: `cargo build --release -p stepwell` makes it.".to_owned());
        return Ok(());
    };
    let mut rounds = Rounds::default();
    rounds.add("size", Figures::default().with(MB, megabytes(std::fs::metadata(&binary)?.len())));
    let wasm = lab.file_of(lab.guest("ts")?)?;
    let warm = lab.data_dir()?;
    let one = ["run", "compute", "--input", "{\"steps\":1}", "--no-replay-check"];
    timed(&binary, warm.path(), &wasm, &one)?;
    for _ in 0..lab.rounds {
        rounds.add("true", ms(|| run(&mut Command::new("true"))));
        rounds.add("--version", ms(|| run(Command::new(&binary).arg("--version"))));
        rounds.add("one-step run", ms(|| timed(&binary, warm.path(), &wasm, &one)));
        let cold = tempfile::tempdir_in(lab.root())?;
        rounds.add("the first, with compiling", ms(|| timed(&binary, cold.path(), &wasm, &one)));
        rounds.add("build of TypeScript", ms(|| build(&binary, lab.root())));
        rounds.add("server, with nothing to do", server(&binary, warm.path())?);
        rounds.add("run that sleeps", sleeper(&binary, warm.path(), &wasm)?);
    }
    let lines = report.add("binary", 1, &rounds);
    report.target("idle server, MB resident", lines.of("server, with nothing to do", MB), At::Most(40.0));
    Ok(())
}

/// The program beside this one, built anew where cargo runs this.
fn binary() -> Result<Option<PathBuf>> {
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "-p", "stepwell"]);
        if !cfg!(debug_assertions) {
            command.arg("--release");
        }
        run(command.current_dir(env!("CARGO_MANIFEST_DIR")))?;
    }
    let beside = std::env::current_exe()?.with_file_name("stepwell");
    Ok(beside.exists().then_some(beside))
}

fn ms(work: impl FnOnce() -> Result<()>) -> Figures {
    let began = Instant::now();
    match work() {
        Ok(()) => Figures::default().with(MS, millis(began.elapsed())),
        Err(error) => {
            eprintln!("left out: {error:#}");
            Figures::default()
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn timed(binary: &Path, data_dir: &Path, wasm: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(binary);
    command.arg(arguments[0]).arg(wasm).args(&arguments[1..]).arg("--data-dir").arg(data_dir);
    run(&mut command)
}

fn build(binary: &Path, dir: &Path) -> Result<()> {
    run(Command::new(binary).arg("build").arg(dir.join("bench.ts")).arg("-o").arg(dir.join("again.wasm")))
}

/// A server: how soon it takes requests, and its memory then.
fn server(binary: &Path, data_dir: &Path) -> Result<Figures> {
    let mut command = Command::new(binary);
    command.args(["serve", "--listen", "127.0.0.1:0", "--json", "--data-dir"]).arg(data_dir);
    seen_at(&mut command, "\"listening\"")
}

/// A process whose only run sleeps.
fn sleeper(binary: &Path, data_dir: &Path, wasm: &Path) -> Result<Figures> {
    let mut command = Command::new(binary);
    command.arg("run").arg(wasm).args(["sleeper", "--json", "--data-dir"]).arg(data_dir);
    seen_at(&mut command, "\"waiting\"")
}

/// How soon the process prints a line with this text, and its resident memory then; it is killed after that.
fn seen_at(command: &mut Command, text: &str) -> Result<Figures> {
    let began = Instant::now();
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null()).spawn()?;
    let mut lines =
        BufReader::new(process.stdout.take().context("the process has no output")?).lines().map_while(Result::ok);
    let found = lines.any(|line| line.contains(text));
    let took = millis(began.elapsed());
    let seen = resident(process.id());
    process.kill()?;
    process.wait()?;
    if !found {
        bail!("{command:?} ended without having printed {text}");
    }
    let (all, own) = seen?;
    Ok(Figures::default().with(MS, took).with(MB, megabytes(all)).with("own_mb", megabytes(own)))
}
