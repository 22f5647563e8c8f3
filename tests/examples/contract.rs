//! Makes the component that is kept of a version of the guest contract, from the text and the contract beside it:
//!
//! ```text
//! cargo run -p stepwell-tests --example contract -- 0.1.0
//! ```
//!
//! Once: what is checked in is never made anew, since it stands for what people have. `tests/contracts/README.md` says more.

use std::path::Path;

use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

fn main() {
    let version = std::env::args().nth(1).expect("a version of the contract, e.g. 0.1.0");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("contracts").join(version);
    let mut module = wat::parse_file(directory.join("guest.wat")).unwrap_or_else(|error| panic!("{error}"));
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(directory.join("workflow.wit")).expect("the contract can be read");
    let world = resolve.select_world(&[package], Some("workflow")).expect("it has its world");
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("it has the contract's types");
    let component = stepwell_build::embed_core_module(&module).unwrap_or_else(|error| panic!("{error}"));
    let file = directory.join("guest.wasm");
    std::fs::write(&file, &component).expect("the component can be written");
    eprintln!("{}: {} bytes", file.display(), component.len());
}
