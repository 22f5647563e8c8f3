//! A workflow that sleeps for a second, as a component.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

pub(crate) fn sleeper() -> Vec<u8> {
    let mut core = wat::parse_str(include_str!("../sleeper.wat")).unwrap();
    let mut resolve = wit_parser::Resolve::default();
    let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest-sdk/wit");
    let (package, _) = resolve.push_path(wit).unwrap();
    let world = resolve.select_world(&[package], Some("workflow")).unwrap();
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&core).unwrap().validate(true).encode().unwrap()
}
