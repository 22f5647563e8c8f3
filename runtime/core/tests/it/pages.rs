//! Each code has its page in `docs/errors`, and each page its code.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use stepwell_core::error::Code;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors")
}

fn stem(code: Code) -> &'static str {
    code.as_str().strip_prefix("workflows.").expect("codes begin with `workflows.`")
}

#[test]
fn every_code_has_a_page_that_says_what_it_is() {
    for code in Code::ALL {
        let path = folder().join(format!("{}.md", stem(*code)));
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(text.starts_with(&format!("# {}\n", code.as_str())), "{}: its title is its code", path.display());
        for part in ["\n## Why it comes\n", "\n## What to do\n"] {
            assert!(text.contains(part), "{}: no {part:?}", path.display());
        }
        assert!(text.len() < 4_000, "{}: a page is short", path.display());
    }
}

#[test]
fn every_page_has_a_code() {
    let codes: BTreeSet<&str> = Code::ALL.iter().map(|code| stem(*code)).collect();
    for file in fs::read_dir(folder()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        // The API's own codes have theirs in `api`, and a test beside them.
        if name != "README.md" && name != "api" {
            let page = name.strip_suffix(".md").unwrap_or_else(|| panic!("{name}: no page"));
            assert!(codes.contains(page), "{name}: no such code");
        }
    }
}

#[test]
fn codes_are_words_that_stay() {
    for code in Code::ALL {
        assert!(stem(*code).bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", code.as_str());
    }
}
