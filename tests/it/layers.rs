//! Who may know whom, as the crates' manifests have it.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use stepwell_tests::Stepwell;

/// Each crate of ours, and which of ours it may import.
const OURS: [(&str, &[&str]); 6] = [
    ("stepwell-core", &[]),
    ("stepwell-store", &["stepwell-core"]),
    ("stepwell-host", &["stepwell-core"]),
    ("stepwell-build", &[]),
    ("stepwell-engine", &["stepwell-core", "stepwell-store", "stepwell-host"]),
    ("stepwell", &["stepwell-core", "stepwell-engine", "stepwell-build"]),
];

/// What a crate must not import: it is another's business.
const FOREIGN: [(&str, &[&str]); 5] = [
    ("stepwell-core", &["tokio", "wasmtime", "rusqlite", "hyper", "jiff", "uuid", "rand", "tracing", "anyhow"]),
    ("stepwell-store", &["wasmtime", "hyper", "clap"]),
    ("stepwell-host", &["rusqlite", "clap"]),
    ("stepwell-engine", &["rusqlite", "wasmtime", "hyper", "clap"]),
    ("stepwell", &["rusqlite", "wasmtime"]),
];

/// The crates that a shipped crate imports; those of its tests left out.
fn imports(metadata: &Value, name: &str) -> BTreeSet<String> {
    let packages = metadata["packages"].as_array().expect("there are packages");
    let package =
        packages.iter().find(|package| package["name"] == name).unwrap_or_else(|| panic!("there is no crate {name}"));
    let all = package["dependencies"].as_array().expect("a crate lists what it imports");
    let shipped = all.iter().filter(|dependency| dependency["kind"] != "dev");
    shipped.map(|dependency| dependency["name"].as_str().expect("a crate has a name").to_owned()).collect()
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(Stepwell::workspace());
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo answers in JSON")
}

#[test]
fn crates_import_only_downwards() {
    let metadata = metadata();
    for (name, allowed) in OURS {
        let of_ours: BTreeSet<_> =
            imports(&metadata, name).into_iter().filter(|import| import.starts_with("stepwell")).collect();
        let allowed: BTreeSet<_> = allowed.iter().map(|&name| name.to_owned()).collect();
        assert!(of_ours.is_subset(&allowed), "{name} imports {of_ours:?}; it may import {allowed:?}");
    }
}

#[test]
fn every_crate_of_the_runtime_has_its_place() {
    let metadata = metadata();
    let runtime = Stepwell::workspace().join("runtime");
    let packages = metadata["packages"].as_array().expect("there are packages");
    let found: BTreeSet<_> = packages
        .iter()
        .filter(|package| {
            package["manifest_path"].as_str().is_some_and(|path| path.starts_with(&*runtime.to_string_lossy()))
        })
        .map(|package| package["name"].as_str().expect("a crate has a name"))
        .collect();
    assert_eq!(found, OURS.iter().map(|(name, _)| *name).collect());
}

#[test]
fn each_layer_leaves_the_others_tools_alone() {
    let metadata = metadata();
    for (name, foreign) in FOREIGN {
        let imports = imports(&metadata, name);
        let wrong: Vec<_> = foreign.iter().filter(|import| imports.contains(**import)).collect();
        assert!(wrong.is_empty(), "{name} imports {wrong:?}");
    }
}
