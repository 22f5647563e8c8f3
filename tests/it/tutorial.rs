//! The tutorial, followed as it is written: its files are saved, its commands run by a shell one after the other, and
//! what it shows is what they print, names and times aside.

use std::path::PathBuf;
use std::process::Command;

use stepwell_tests::{Project, Serving, Stepwell};

/// A fenced block of the page.
struct Block {
    language: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(_), Some(block)) => blocks.push(block),
            (Some(language), None) => open = Some(Block { language: language.to_owned(), text: String::new() }),
            (None, Some(mut block)) => {
                block.text += line;
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    blocks
}

/// Without what is another in each run: ids, digests and times become `…`.
fn comparable(text: &str) -> String {
    let word = |word: &str| {
        let varies = |prefix: &str| word.strip_prefix(prefix).is_some_and(|rest| rest == "…" || rest.len() >= 32);
        match word {
            _ if varies("run_") => "run_…".to_owned(),
            _ if varies("sha256:") => "sha256:…".to_owned(),
            _ if word == "…" || word == "UTC" || word.split(':').count() == 3 => String::new(),
            _ => word.to_owned(),
        }
    };
    let line =
        |line: &str| line.split_whitespace().map(word).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_tutorial_does_what_it_says() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("there is no curl: the tutorial, which needs it, is not followed");
        return;
    }
    let page = Stepwell::workspace().join("docs/tutorial.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let project = Project::new();
    let mut server: Option<Serving> = None;
    let mut printed: Option<String> = None;
    let mut commands = 0;
    for Block { language, text } in blocks(&page) {
        match language.as_str() {
            "ts" => drop(project.write("order.ts", &text)),
            "sh" if text.trim() == "stepwell serve" => {
                // The second time it has been killed.
                if let Some(server) = server.take() {
                    server.kill();
                }
                server = Some(project.serve(&[]));
                printed = None;
            }
            "sh" => {
                // The last command is one for a server that is stopped.
                let address = server.as_ref().map_or_else(String::new, |server| server.address().to_owned());
                if text.contains("--data-dir")
                    && let Some(server) = server.take()
                {
                    drop(server.stop().expect_code(0));
                }
                let data_dir = project.data_dir().display().to_string();
                let text = text.replace("127.0.0.1:7070", &address).replace(" .stepwell", &format!(" {data_dir}"));
                printed = Some(shell(&project, &text, &address));
                commands += 1;
            }
            "" => {
                let printed = printed.as_deref().expect("what is shown follows a command");
                assert_eq!(comparable(printed), comparable(&text), "after what was shown before:\n{printed}");
            }
            other => panic!("nobody follows a block in {other}"),
        }
    }
    assert!(commands > 6, "{commands} commands were found");
}

/// What the commands print; each must succeed.
fn shell(project: &Project, commands: &str, address: &str) -> String {
    let mut path = PathBuf::from(Stepwell::path());
    path.pop();
    let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap_or_default());
    let out = Command::new("bash")
        .args(["-euo", "pipefail", "-c", commands])
        .current_dir(project.path())
        .env("PATH", path)
        .env("STEPWELL_URL", format!("http://{address}"))
        .env("STEPWELL_DATA_DIR", project.data_dir())
        .output()
        .expect("bash is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        out.status.success(),
        "{commands}\nends with {:?}\n{}\n{}",
        out.status,
        text(&out.stdout),
        text(&out.stderr)
    );
    text(&out.stdout)
}
