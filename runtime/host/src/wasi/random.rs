//! `wasi:random`: the engine's random numbers, for all three interfaces.

use wasmtime::component::Linker;

use super::{Store, versioned};
use crate::guest::Guest;
use crate::trap::Stop;

/// Bytes that a guest may ask for in one call.
const MAX_BYTES: u64 = 1 << 20;

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    for (interface, bytes, number) in [
        ("wasi:random/random", "get-random-bytes", "get-random-u64"),
        ("wasi:random/insecure", "get-insecure-random-bytes", "get-insecure-random-u64"),
    ] {
        let mut instance = linker.instance(&versioned(interface))?;
        instance
            .func_wrap(bytes, |mut store: Store<'_>, (length,): (u64,)| Ok((random_bytes(&mut store, length)?,)))?;
        instance.func_wrap(number, |mut store: Store<'_>, (): ()| Ok((random_u64(&mut store),)))?;
    }
    let mut seed = linker.instance(&versioned("wasi:random/insecure-seed"))?;
    seed.func_wrap("insecure-seed", |mut store: Store<'_>, (): ()| {
        Ok(((random_u64(&mut store), random_u64(&mut store)),))
    })
}

fn random_u64(store: &mut Store<'_>) -> u64 {
    store.data_mut().commands.random_u64()
}

fn random_bytes(store: &mut Store<'_>, length: u64) -> Result<Vec<u8>, wasmtime::Error> {
    if length > MAX_BYTES {
        return Err(Stop::RandomBytes { asked: length, limit: MAX_BYTES }.into());
    }
    let length = usize::try_from(length)?;
    let mut bytes = Vec::with_capacity(length.next_multiple_of(8));
    while bytes.len() < length {
        bytes.extend_from_slice(&random_u64(store).to_le_bytes());
    }
    bytes.truncate(length);
    Ok(bytes)
}
