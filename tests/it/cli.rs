//! The command line: exit codes, what goes where, and what errors say.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Finished, Project, Stepwell};

use crate::journals::until_waiting;

const SOURCE: &str = r#"
import { workflow, NonRetriableError } from "stepwell";

export const alpha = workflow("alpha", async ({ input, step, log }: any) => {
  log("hello", { n: 1 });
  await step.run("s", () => { console.error("inside"); });
  return { got: input };
});

export const beta = workflow("beta", async () => {
  throw new NonRetriableError("no", { code: "my.code", cause: new Error("why") });
});

export const gamma = workflow("gamma", async ({ sleep }: any) => { await sleep("1 h"); });
"#;

const ONE: &str = r#"
import { workflow } from "stepwell";
export const only = workflow("only", async ({ input }: any) => ({ got: input }));
"#;

/// Both sources, built and compiled once: what a data directory keeps of that is put into those of the tests.
static BUILT: LazyLock<Project> = LazyLock::new(|| {
    let project = Project::new();
    for (name, source) in [("flows.ts", SOURCE), ("one.ts", ONE)] {
        project.write(name, source);
        let _ = project.stepwell(&["run", name, "no such workflow"]).expect_code(2);
    }
    project
});

/// A project with one file. Source that was built before is not built again.
fn with(name: &str, source: &str) -> Project {
    let project = Project::new();
    project.write(name, source);
    for kept in ["built", "compiled"] {
        let to = project.data_dir().join(kept);
        std::fs::create_dir_all(&to).expect("a directory can be made");
        for file in std::fs::read_dir(BUILT.data_dir().join(kept)).expect("a data directory keeps what it has built") {
            let file = file.expect("it can be listed");
            std::fs::copy(file.path(), to.join(file.file_name())).expect("a file can be copied");
        }
    }
    project
}

/// That stderr has each of these.
#[track_caller]
fn assert_says(end: &Finished, parts: &[&str]) {
    for part in parts {
        assert!(end.stderr.contains(part), "{part:?} is not in what it says: {end:#?}");
    }
}

#[test]
fn the_result_alone_goes_to_stdout() {
    let project = with("flows.ts", SOURCE);
    let end = project.stepwell(&["run", "flows.ts", "alpha", "--input", r#"{"b":[1.0,"é"],"a":null}"#]).expect_code(0);
    assert_eq!(end.stdout, "{\"got\":{\"b\":[1,\"é\"],\"a\":null}}\n");
    assert_says(&end, &["run run_", "ok      s attempt 1", "hello {\"n\":1}", "error [s] inside"]);
    // A failure prints no result.
    let end = project.stepwell(&["run", "flows.ts", "beta"]).expect_code(1);
    assert_eq!(end.stdout, "");
    assert_says(&end, &["NonRetriableError (my.code): no", "caused by Error: why"]);
}

#[test]
fn events_are_json_lines_from_the_run_s_id_to_its_end() {
    let project = with("flows.ts", SOURCE);
    let end = project.stepwell(&["run", "flows.ts", "alpha", "--json", "--input", "7"]).expect_code(0);
    assert_eq!(end.events.len(), end.stdout.lines().count(), "every line is an object");
    assert_eq!(end.events[0], json!({ "event": "run", "run": project.only_run() }));
    let log = end.of_kind("log").next().expect("there is a line");
    assert_eq!((&log["message"], &log["fields"]), (&json!("hello"), &json!({ "n": 1 })));
    let last = end.events.last().expect("there are events");
    assert_eq!((&last["event"], &last["result"]), (&json!("ended"), &json!({ "got": 7 })));
}

#[test]
fn an_input_comes_from_the_line_or_a_file_or_is_null() {
    let project = with("one.ts", ONE);
    project.write("order.json", "{ \"order\": 1 }\n");
    for (args, got) in [
        (&["run", "one.ts", "--input", "@order.json"][..], json!({ "order": 1 })),
        (&["run", "one.ts", "only", "-i", "\"text\""], json!("text")),
        (&["run", "one.ts"], Value::Null),
    ] {
        let end = project.stepwell(args).expect_code(0);
        assert_eq!(serde_json::from_str::<Value>(&end.stdout).expect("the result is JSON"), json!({ "got": got }));
    }
}

#[test]
fn an_input_that_is_none_is_refused_with_the_place() {
    let project = with("one.ts", ONE);
    project.write("bad.json", "{\n  \"a\": 1,\n  \"b\": x\n}");
    for (input, says) in [
        ("{\"a\":", &["--input", "line 1 column 5"][..]),
        ("{\"a\": 1,\n \"b\": x}", &["--input", "line 2 column 7"]),
        ("@bad.json", &["--input", "line 3 column 8"]),
        ("@missing.json", &["--input", "missing.json", "No such file"]),
        ("@-", &["--input", "line 1 column 0"]),
    ] {
        let end = project.stepwell(&["run", "one.ts", "--input", input]).expect_code(2);
        assert_says(&end, says);
        assert_eq!(end.stdout, "");
    }
    assert!(project.runs(&[]).is_empty(), "no run was started");
}

#[test]
fn a_command_line_that_is_wrong_is_refused() {
    let project = with("flows.ts", SOURCE);
    project.write("notes.txt", "notes");
    for (args, says) in [
        (&["run"][..], &["<FILE>"][..]),
        (&["run", "flows.ts"], &["alpha, beta, gamma"]),
        (&["run", "flows.ts", "delta"], &["delta", "alpha, beta, gamma"]),
        (&["run", "flows.ts", "alpha", "--bogus"], &["--bogus"]),
        (&["run", "flows.ts", "alpha", "--event", "=1"], &["--event", "NAME=JSON"]),
        (&["run", "flows.ts", "alpha", "--event", "x={"], &["--event", "line 1 column 1"]),
        (&["run", "flows.ts", "alpha", "--secret", "key"], &["--secret", "NAME=env:VARIABLE@HOST"]),
        (&["run", "flows.ts", "alpha", "--run-timeout-ms", "0"], &["runTimeoutMs", "315576000000"]),
        (&["run", "flows.ts", "alpha", "--workflow-turn-ms", "0"], &["--workflow-turn-ms"]),
        (&["run", "nowhere.ts"], &["there is no file nowhere.ts"]),
        (&["run", "notes.txt"], &["notes.txt", ".ts", ".wasm"]),
        (&["run", "--resume", "run_0"], &["there is no run run_0", "runs list"]),
        (&["runs", "show", "run_0"], &["there is no run run_0"]),
        (&["runs", "list", "--status", "bored"], &["bored"]),
        (&["runs", "list", "--data-dir", "elsewhere"], &["elsewhere"]),
        (&["build", "nowhere.ts"], &["there is no file nowhere.ts"]),
    ] {
        let end = project.stepwell(args).expect_code(2);
        assert_says(&end, says);
        assert_eq!(end.stdout, "");
    }
    assert!(project.runs(&[]).is_empty(), "no run was started");
}

#[test]
fn source_that_does_not_build_is_shown_with_its_place() {
    for (source, says) in [
        ("export const x = ;\n", &["bad.ts:1:18: Unexpected token", "export const x = ;"][..]),
        ("import { y } from \"./missing\";\nconsole.log(y);\n", &["bad.ts:1:19: cannot find the module \"./missing\""]),
        (
            "import { workflow } from \"stepwell\";\n\nthrow new Error(\"at the top\");\n",
            &["bad.ts:3:11", "Error: at the top"],
        ),
        ("export const x = 1;\n", &["bad.ts registers no workflow"]),
        (
            "import { workflow } from \"stepwell\";\nworkflow(\"a\", async () => 1);\nworkflow(\"a\", async () => 2);\n",
            &["bad.ts:3:", "\"a\""],
        ),
        ("import { workflow } from \"stepwell\";\nfetch(\"http://localhost\");\n", &["bad.ts:2:"]),
    ] {
        let project = with("bad.ts", source);
        for command in ["run", "build"] {
            let end = project.stepwell(&[command, "bad.ts"]).expect_code(3);
            assert_says(&end, says);
            assert_eq!(end.stdout, "");
        }
        assert!(!project.path().join("bad.wasm").exists());
    }
}

#[test]
fn a_module_that_is_none_is_refused() {
    let project = with("not.wasm", "this is no module");
    assert_says(&project.stepwell(&["run", "not.wasm"]).expect_code(3), &["not a WebAssembly module"]);
    project.write("empty.wasm", "");
    assert_says(&project.stepwell(&["run", "empty.wasm"]).expect_code(3), &["not a WebAssembly module"]);
}

#[test]
fn a_built_component_runs_without_its_source() {
    let project = with("one.ts", ONE);
    let built = project.stepwell(&["build", "one.ts", "-o", "out.wasm"]).expect_code(0);
    assert_says(&built, &["wrote out.wasm"]);
    std::fs::remove_file(project.path().join("one.ts")).expect("the source is there");
    let end = project.stepwell(&["run", "out.wasm", "--input", "[1]"]).expect_code(0);
    assert_eq!(end.stdout, "{\"got\":[1]}\n");
    assert_eq!(left_over(project.path()), Vec::<String>::new());
    // Beside the source, where no place is named; and never over what it was built from.
    project.write("two.ts", ONE);
    let _ = project.stepwell(&["build", "two.ts"]).expect_code(0);
    assert!(project.path().join("two.wasm").is_file());
    assert_says(&project.stepwell(&["build", "two.wasm"]).expect_code(2), &["would be overwritten"]);
}

fn left_over(dir: &Path) -> Vec<String> {
    let files = std::fs::read_dir(dir).expect("it can be listed");
    let names = files.map(|file| file.expect("it can be listed").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("partial")).collect()
}

#[test]
fn the_compiled_runtime_is_kept_and_made_anew_where_it_is_damaged() {
    let project = with("one.ts", ONE);
    let runtimes = || -> Vec<_> {
        let files = std::fs::read_dir(project.data_dir().join("built")).expect("it can be listed");
        let paths = files.map(|file| file.expect("it can be listed").path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "runtime")).collect()
    };
    let [kept] = &runtimes()[..] else { panic!("one runtime is kept: {:?}", runtimes()) };
    let bytes = std::fs::read(kept).expect("it can be read");
    // Source that was not built before, once with what is kept, once where that is damaged.
    for (name, damaged) in [("two.ts", false), ("three.ts", true)] {
        if damaged {
            std::fs::write(kept, &bytes[..bytes.len() / 2]).expect("it can be written");
        }
        project.write(name, &format!("{ONE}// {name}\n"));
        let end = project.stepwell(&["run", name, "--input", "1"]).expect_code(0);
        assert_eq!(end.stdout, "{\"got\":1}\n");
        // What is compiled twice is not the same in every byte.
        let now = std::fs::read(kept).expect("it can be read");
        assert!(
            now.len() > bytes.len() / 2 && (damaged || now == bytes),
            "{name}: {} of {} bytes",
            now.len(),
            bytes.len()
        );
    }
    assert_eq!(runtimes().len(), 1);
}

#[test]
fn a_second_process_on_the_data_directory_is_refused() {
    let project = with("flows.ts", SOURCE);
    let mut running = project.spawn(&["run", "flows.ts", "gamma", "--json"]);
    until_waiting(&mut running);
    let run = project.only_run();
    for args in [&["run", "flows.ts", "alpha"][..], &["run", "--resume", &run]] {
        let end = project.stepwell(args).expect_code(6);
        assert_says(&end, &["is in use by another stepwell process", &running.pid().to_string()]);
    }
    // Looking is allowed, and the first process is not disturbed.
    assert_eq!(project.show(&run)["status"], "waiting");
    running.signal("INT");
    let _ = running.wait().expect_code(130);
    let _ = project.stepwell(&["run", "flows.ts", "alpha"]).expect_code(0);
}

#[test]
fn a_lock_of_a_killed_process_hinders_nobody() {
    let project = with("flows.ts", SOURCE);
    let mut running = project.spawn(&["run", "flows.ts", "gamma", "--json"]);
    until_waiting(&mut running);
    running.kill();
    let _ = project.stepwell(&["run", "flows.ts", "alpha"]).expect_code(0);
}

#[test]
fn a_run_that_ended_gives_its_result_again_and_nothing_runs() {
    let project = with("one.ts", ONE);
    let first = project.stepwell(&["run", "one.ts"]).expect_code(0);
    let run = project.only_run();
    let again = project.stepwell(&["run", "--resume", &run]).expect_code(0);
    assert_says(&again, &["has ended already"]);
    assert_eq!(first.stdout, again.stdout);
}

#[test]
fn a_run_s_time_out_cancels_it() {
    let project = with("flows.ts", SOURCE);
    let end = project.stepwell(&["run", "flows.ts", "gamma", "--run-timeout-ms", "100"]).expect_code(1);
    assert_says(&end, &["was cancelled", "workflows.run_timeout"]);
    assert_eq!(project.show(&project.only_run())["status"], "cancelled");
}

#[test]
fn runs_can_be_looked_at() {
    let project = with("flows.ts", SOURCE);
    for (workflow, code) in [("alpha", 0), ("beta", 1)] {
        let _ = project.stepwell(&["run", "flows.ts", workflow, "--input", "7"]).expect_code(code);
    }
    let ids = |args: &[&str]| -> Vec<String> {
        project
            .runs(args)
            .iter()
            .map(|run| run["workflow"].as_str().expect("a run has a workflow").to_owned())
            .collect()
    };
    assert_eq!(ids(&[]), ["beta", "alpha"], "the latest first");
    assert_eq!(ids(&["--status", "failed"]), ["beta"]);
    assert_eq!(ids(&["--workflow", "alpha"]), ["alpha"]);
    assert_eq!(ids(&["--limit", "1"]), ["beta"]);
    let list = project.stepwell(&["runs", "list"]).expect_code(0).stdout;
    assert_eq!(list.lines().count(), 2);
    assert!(list.contains("succeeded  alpha") && list.contains("failed     beta"), "{list}");

    let run = project.runs(&["--workflow", "alpha"])[0]["run"].as_str().expect("a run has an id").to_owned();
    let shown = project.show(&run);
    assert_eq!((&shown["status"], &shown["outcome"]), (&json!("succeeded"), &json!({ "got": 7 })));
    let text = project.stepwell(&["runs", "show", &run]).expect_code(0).stdout;
    for part in [run.as_str(), "alpha", "succeeded", "{\"got\":7}"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn journal_and_logs_of_a_run_are_printed_as_text_and_as_json() {
    let project = with("flows.ts", SOURCE);
    let _ = project.stepwell(&["run", "flows.ts", "alpha", "--input", "7"]).expect_code(0);
    let run = project.only_run();
    let text = project.stepwell(&["runs", "journal", &run]).expect_code(0).stdout;
    let kinds: Vec<_> = text.lines().map(|line| line.split_whitespace().nth(2).expect("a line has its kind")).collect();
    assert_eq!(kinds, ["started", "step-begun", "attempt-started", "attempt-ended", "delivered", "ended"]);
    let journal = project.journal(&run);
    assert_eq!(
        journal.iter().map(|row| row["seq"].clone()).collect::<Vec<_>>(),
        (0..6).map(Value::from).collect::<Vec<_>>()
    );
    assert_eq!(journal[0]["entry"]["started"]["run"], run);

    let logs = project.stepwell(&["runs", "logs", &run]).expect_code(0).stdout;
    assert!(logs.contains("info  hello {\"n\":1}") && logs.contains("error [s] inside"), "{logs}");
    let lines = project.stepwell(&["runs", "logs", &run, "--json"]).expect_code(0).events;
    let short: Vec<_> =
        lines.iter().map(|line| json!([line["level"], line["step"], line["message"], line["fields"]])).collect();
    assert_eq!(json!(short), json!([["info", null, "hello", { "n": 1 }], ["error", "s", "inside", null]]));
}

#[test]
fn help_has_the_exit_codes_and_an_example_of_each_command() {
    let project = Project::new();
    let help = project.stepwell(&["--help"]).expect_code(0).stdout;
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "130 "] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(code)), "{code}: {help}");
    }
    for command in ["run", "runs", "build"] {
        assert!(project.stepwell(&[command, "--help"]).expect_code(0).stdout.contains("Examples:"), "{command}");
    }
}

#[test]
fn each_shell_has_its_completions() {
    let project = Project::new();
    for (shell, of_it) in
        [("bash", "complete -F _stepwell"), ("zsh", "#compdef stepwell"), ("fish", "complete -c stepwell")]
    {
        let script = project.stepwell(&["completions", shell]).expect_code(0).stdout;
        assert!(script.contains(of_it) && script.contains("dry-run"), "{shell}: {script}");
    }
    drop(project.stepwell(&["completions", "teapot"]).expect_code(2));
}

#[test]
fn what_is_looked_at_is_of_a_directory_or_of_a_server_and_never_of_both() {
    let project = Project::new();
    let (dir, url) = (project.data_dir().display().to_string(), "http://127.0.0.1:1");
    for command in [
        &["steps", "list"][..],
        &["steps", "resolve", "run_1", "charge", "--retry", "--evidence", "asked"],
        &["runs", "list"],
        &["runs", "show", "run_1"],
        &["runs", "journal", "run_1"],
        &["runs", "logs", "run_1"],
    ] {
        let both = [command, &["--data-dir", &dir, "--url", url]].concat();
        let refused = project.stepwell(&both).expect_code(2);
        assert!(refused.stderr.contains("--url") && refused.stderr.contains("--data-dir"), "{refused:#?}");
    }
    // What is said on the command line goes before the environment: there is no such server, and no such directory.
    for command in [["steps", "list"], ["runs", "list"]] {
        let in_directory = [&command[..], &["--data-dir", &dir]].concat();
        let of_directory = project.spawn_with(&in_directory, &[("STEPWELL_URL", url)]).wait().expect_code(2);
        assert!(of_directory.stderr.contains("there is no stepwell database"), "{of_directory:#?}");
        let env = [("STEPWELL_DATA_DIR", &*dir), ("STEPWELL_TIMEOUT_MS", "100")];
        let on_server = [&command[..], &["--url", url]].concat();
        let of_server = project.spawn_with(&on_server, &env).wait().expect_code(6);
        assert!(of_server.stderr.contains("no answer"), "{of_server:#?}");
        let of_server = project.spawn_with(&command, &[env[0], env[1], ("STEPWELL_URL", url)]).wait().expect_code(6);
        assert!(of_server.stderr.contains("no answer"), "{of_server:#?}");
    }
}

#[test]
fn a_database_that_cannot_be_read_is_no_fault_of_the_command_line() {
    let project = Project::new();
    std::fs::create_dir_all(project.data_dir()).expect("the directory is the test's");
    std::fs::write(project.data_dir().join("stepwell.db"), "no database".repeat(1_000)).expect("so is the file");
    for command in [["runs", "list"], ["steps", "list"]] {
        let end = project.stepwell(&command).expect_code(6);
        assert!(end.stderr.starts_with("error: "), "{end:#?}");
    }
}

#[test]
fn what_is_no_terminal_gets_no_colours() {
    let project = with("flows.ts", SOURCE);
    let args = ["run", "flows.ts", "alpha", "--input", "1"];
    let end = project.spawn_with(&args, &[("STEPWELL_LOG", "trace")]).wait().expect_code(0);
    assert!(end.stderr.contains(" INFO ") && !end.stderr.contains('\u{1b}'), "{end:#?}");
}

/// A file that is always full.
fn full() -> std::fs::File {
    std::fs::File::options().write(true).open("/dev/full").expect("Linux has it")
}

#[test]
fn a_standard_error_that_takes_nothing_ends_nothing() {
    let project = with("flows.ts", SOURCE);
    let stepwell = |args: &[&str]| {
        let mut command = Stepwell::command();
        command
            .args(args)
            .current_dir(project.path())
            .env("STEPWELL_DATA_DIR", project.data_dir())
            .env("STEPWELL_LOG", "trace")
            .stderr(full());
        command.output().expect("it starts")
    };
    let end = stepwell(&["run", "flows.ts", "alpha", "--input", "1"]);
    assert_eq!((end.status.code(), String::from_utf8_lossy(&end.stdout).trim()), (Some(0), r#"{"got":1}"#));
    assert_eq!(stepwell(&["run", "flows.ts", "beta"]).status.code(), Some(1));
    assert_eq!(stepwell(&["run", "flows.ts", "nothing"]).status.code(), Some(2));
}

#[test]
fn a_list_that_cannot_be_printed_says_so_and_one_that_nobody_reads_does_not() {
    let project = with("flows.ts", SOURCE);
    let _ = project.stepwell(&["run", "flows.ts", "alpha"]).expect_code(0);
    let list = |stdout: std::process::Stdio| {
        let mut command = Stepwell::command();
        command
            .args(["runs", "list"])
            .env("STEPWELL_DATA_DIR", project.data_dir())
            .stdout(stdout)
            .output()
            .expect("it starts")
    };
    let end = list(full().into());
    let said = String::from_utf8_lossy(&end.stderr).into_owned();
    assert!(end.status.code() == Some(6) && said.contains("nothing more can be written"), "{end:?}");
    let (reader, writer) = std::io::pipe().expect("there are pipes");
    drop(reader);
    let end = list(writer.into());
    assert_eq!((end.status.code(), String::from_utf8_lossy(&end.stderr).as_ref()), (Some(0), ""));
}
