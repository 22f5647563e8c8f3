//! A core module with an embedded component type (what wit-bindgen's guests compile to) becomes a component.

use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;

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
    // An adapter that the module has no use for is left out by the encoder.
    wit_component::ComponentEncoder::default()
        .validate(true)
        .module(bytes)?
        .adapter(PREVIEW1, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
        .encode()
}
