//! The examples, run as their READMEs say: the result, and the lines that are shown.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stepwell_tests::{Finished, Project, Running, Stepwell};

use crate::journals::until_waiting;

/// What a newcomer types, at the top of the repository. It keeps its runs in the project's data directory.
fn typed(project: &Project, program: &str, args: &[&str]) -> Finished {
    let mut command = Command::new(Stepwell::workspace().join(program));
    command.args(args).current_dir(Stepwell::workspace());
    command.env("STEPWELL_DATA_DIR", project.data_dir()).env("SHOP_PORT", "0");
    // So that nothing is built again.
    command.env("STEPWELL_BIN", Stepwell::path()).env("SHOP_BIN", Stepwell::shop());
    Running::spawn(command).wait()
}

fn beside(example: &str, file: &str) -> String {
    let path = Stepwell::workspace().join("examples").join(example).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A line without what differs from run to run: times, the run's id, the shop's port, the test's data directory.
fn without_times(line: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut words = line.split(' ').peekable();
    while let Some(word) = words.next() {
        let bare = word.trim_start_matches('(').trim_end_matches([')', ';', ',']);
        let is_number = !bare.is_empty() && bare.chars().all(|c| c.is_ascii_digit() || c == '.');
        let unit = words.peek().map(|next| next.trim_end_matches([')', ';', ',']));
        let is_date = bare.len() == 10 && bare.chars().filter(|c| *c == '-').count() == 2;
        if word == "--data-dir" {
            // What follows, up to the closing back-tick.
            let dir = words.next().unwrap_or_default();
            let tick = if dir.ends_with('`') { "`" } else { "" };
            if let Some(last) = out.last_mut() {
                last.push_str(tick);
            }
        } else if is_number && matches!(unit, Some("ms" | "s" | "min" | "h" | "days")) {
            out.push("TIME".to_owned());
            words.next();
        } else if is_date || bare.len() == 8 && bare.chars().filter(|c| *c == ':').count() == 2 {
            // With the date, where that is another than today's.
        } else if bare.starts_with("run_") {
            out.push(if word.ends_with('`') { "RUN`" } else { "RUN" }.to_owned());
        } else if let Some(at) = word.find("http://127.0.0.1:") {
            let (before, rest) = word.split_at(at + "http://127.0.0.1:".len());
            out.push(format!("{before}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit())));
        } else {
            out.push(word.to_owned());
        }
    }
    out.join(" ")
}

/// The lines that are worth showing, whichever of two steps at once was first. Whether a wait is long enough for a line of its own
/// depends on the machine, and what is built on what was built before.
fn shown(text: &str) -> Vec<String> {
    let dull = |line: &&str| {
        ["built ", "building ", "shop listening", "  waiting for the next attempt", "  waiting for a sleep"]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let begin = text.find("run run_").unwrap_or_else(|| panic!("it names the run: {text}"));
    let mut lines: Vec<_> = text[begin..].lines().filter(|line| !dull(line)).map(without_times).collect();
    lines.sort();
    lines.dedup();
    lines
}

/// Runs an example, and compares what it prints with what stands beside it.
fn check(example: &str, program: &str, args: &[&str], code: i32) -> Project {
    let project = Project::new();
    let end = typed(&project, program, args).expect_code(code);
    assert_eq!(shown(&end.stderr), shown(&beside(example, "expected.txt")), "{example} shows:\n{}", end.stderr);
    if code == 0 {
        let result: Value = serde_json::from_str(&end.stdout).expect("stdout has the result alone");
        let expected: Value = serde_json::from_str(&beside(example, "expected.json")).expect("it is JSON");
        assert_eq!(result, expected, "{example}");
    } else {
        assert_eq!(end.stdout, "", "{example} has no result");
    }
    project
}

#[test]
fn each_shows_what_stands_beside_it() {
    for example in ["checkout", "retries", "timeouts"] {
        check(example, &format!("examples/{example}/run.sh"), &[], 0);
    }
    let stepwell = Stepwell::path().to_str().expect("the path is text");
    check("parallel", stepwell, &["run", "examples/parallel/parallel.ts"], 0);
}

#[test]
fn what_must_not_happen_twice_is_blocked() {
    let project = check("once", "examples/once/run.sh", &[], 4);
    let run = project.only_run();
    assert_eq!(project.show(&run)["status"], "blocked");
    // Also when somebody goes on with it, beside a new shop.
    let end = typed(&project, "examples/once/run.sh", &["--resume", &run]).expect_code(4);
    assert!(end.stderr.contains("blocked"), "{}", end.stderr);
}

const LONG_SLEEP: [&str; 4] =
    ["run", "examples/long-sleep/long-sleep.ts", "--input", "@examples/long-sleep/input.json"];

#[test]
fn a_year_is_skipped() {
    let stepwell = Stepwell::path().to_str().expect("the path is text");
    check("long-sleep", stepwell, &[&LONG_SLEEP[..], &["--skip-sleeps"]].concat(), 0);
}

#[test]
fn a_long_sleep_is_parked_and_resumed() {
    let project = Project::new();
    let mut command = Stepwell::command();
    command.args(LONG_SLEEP).arg("--json").current_dir(Stepwell::workspace());
    command.env("STEPWELL_DATA_DIR", project.data_dir());
    let mut running = Running::spawn(command);
    until_waiting(&mut running);
    running.signal("INT");
    let end = running.wait().expect_code(130);
    let run = project.only_run();
    assert!(end.stderr.contains(&format!("stepwell run --resume {run}")), "{}", end.stderr);
    let end = project.stepwell(&["run", "--resume", &run, "--skip-sleeps"]).expect_code(0);
    let result: Value = serde_json::from_str(&end.stdout).expect("stdout has the result alone");
    assert_eq!(result, serde_json::from_str::<Value>(&beside("long-sleep", "expected.json")).expect("it is JSON"));
}

#[test]
fn every_example_is_listed() {
    let list = beside(".", "README.md");
    for entry in std::fs::read_dir(Stepwell::workspace().join("examples")).expect("there are examples") {
        let entry = entry.expect("it can be listed");
        if entry.path().is_dir() {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(list.contains(&format!("({name}/)")), "examples/README.md does not list {name}");
            assert!(Path::new(&entry.path()).join("README.md").is_file() || name == "shop", "{name} has no README.md");
        }
    }
}
