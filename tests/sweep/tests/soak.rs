//! A short form of the soak; the long one is `cargo run -p stepwell-sweep --bin soak`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::process::Command;

#[test]
fn five_kills_under_load_break_no_promise() {
    let seed = std::env::var("SEED").unwrap_or_else(|_| std::process::id().to_string());
    println!("SEED={seed}");
    let soak = Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(["--kills", "5", "--runs", "60", "--seed", &seed])
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&soak.stdout), String::from_utf8_lossy(&soak.stderr));
    println!("{out}");
    assert!(soak.status.success(), "{out}\n{err}");
}
