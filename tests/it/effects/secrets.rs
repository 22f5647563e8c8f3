//! A secret reaches the server that it is for, and nothing else.

use std::path::{Path, PathBuf};

use serde_json::json;
use stepwell_tests::{Project, Reply, Server};

use super::MODULE;

const SECRET: &str = "sk_live_7f3a9b2c4d5e6f";

#[test]
fn a_secret_that_the_server_sends_back_is_nowhere_to_be_found() {
    let project = Project::new();
    let server = Server::start(|request| {
        let told = request.header("authorization").unwrap_or("nothing");
        let status = if request.path == "/refused" { "402 Payment Required" } else { "200 OK" };
        let body = format!("you said {told}");
        let length = body.len();
        Reply::Raw(
            format!(
                "HTTP/1.1 {status}\r\nx-told: {told}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
            .into_bytes(),
        )
    });
    let args = ["--secret", "pay=env:PAY@127.0.0.1:*"];
    // At the most talkative, so that what is never said would be seen.
    let env = [("PAY", SECRET), ("STEPWELL_LOG", "trace")];
    let end = project.run_with(&MODULE, "tells", &json!({ "url": server.url() }), &args, &env).wait().expect_code(1);
    let requests = server.requests();
    assert_eq!(requests.len(), 3, "{requests:#?}");
    for request in &requests {
        assert_eq!(request.header("authorization"), Some(&format!("Bearer {SECRET}")[..]), "the server gets it");
    }
    assert!(
        end.error()["message"].as_str().is_some_and(|message| message.starts_with("refused: you said Bearer ")),
        "{end:#?}"
    );
    assert!(!end.stdout.contains(SECRET), "stdout has it: {}", end.stdout);
    assert!(!end.stderr.contains(SECRET), "stderr has it");
    let run = project.only_run();
    for what in ["journal", "show", "logs"] {
        for json in [&["--json"][..], &[]] {
            let said = project.stepwell(&[&["runs", what, &run], json].concat()).expect_code(0);
            assert!(!said.stdout.contains(SECRET) && said.stdout.contains("you said"), "runs {what}: {}", said.stdout);
        }
    }
    let files = files(&project.data_dir());
    assert!(files.iter().any(|file| file.ends_with("stepwell.db")), "{files:?}");
    for file in files {
        let bytes = std::fs::read(&file).expect("a file of the data directory can be read");
        let found = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!found, "{} has it", file.display());
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("the data directory can be listed");
    let paths = entries.map(|entry| entry.expect("the data directory can be listed").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
