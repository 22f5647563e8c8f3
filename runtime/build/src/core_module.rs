//! A core module with an embedded component type (what wit-bindgen's guests compile to) becomes a component.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
use wasmparser::{Parser, Payload};
use wit_parser::{PackageId, Resolve, decoding};

use crate::BuildError;

/// The module name under which WASI's first preview is imported.
const PREVIEW1: &str = "wasi_snapshot_preview1";

/// Makes a component of a core module; imports of WASI preview 1 are served by the reactor adapter.
///
/// # Errors
///
/// [`BuildError::CoreModule`] where the bytes are no core module, or carry no component type, or do not fit it.
pub fn embed_core_module(bytes: &[u8]) -> Result<Vec<u8>, BuildError> {
    encode_with_adapter(bytes).map_err(|error| {
        BuildError::CoreModule(format!(
            "this core module is no component and cannot be made one: {error:#}. A guest embeds its component type \
             (wit-bindgen does), or is uploaded as a component"
        ))
    })
}

fn encode_with_adapter(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    check_types(bytes)?;
    // An adapter that the module has no use for is left out by the encoder.
    wit_component::ComponentEncoder::default()
        .validate(true)
        .module(bytes)?
        .adapter(PREVIEW1, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
        .encode()
}

/// Refuses packages that depend on one another. No WIT can say so, bytes can; the encoder follows them for ever, and a stack that
/// overflows takes the whole process with it.
fn check_types(bytes: &[u8]) -> anyhow::Result<()> {
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.context("reading the module")? {
            Payload::CustomSection(section) if section.name().starts_with("component-type") => {
                let (resolve, _) = decoding::decode_world(section.data())
                    .with_context(|| format!("reading custom section {}", section.name()))?;
                check_acyclic(&resolve)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_acyclic(resolve: &Resolve) -> anyhow::Result<()> {
    let mut left: BTreeSet<PackageId> = resolve.packages.iter().map(|(id, _)| id).collect();
    while !left.is_empty() {
        let free = left.iter().copied().find(|id| resolve.package_direct_deps(*id).all(|other| !left.contains(&other)));
        match free {
            Some(id) => left.remove(&id),
            None => bail!("its packages depend on one another"),
        };
    }
    Ok(())
}
