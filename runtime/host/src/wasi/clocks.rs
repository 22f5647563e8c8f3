//! `wasi:clocks`: the engine's time, to the millisecond. In a workflow turn that is recorded time, which stands still.

use wasmtime::component::{ComponentType, Lift, Linker, Lower};

use super::poll::Pollable;
use super::{Store, versioned};
use crate::guest::Guest;

#[derive(ComponentType, Lift, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

const NS_PER_MS: u64 = 1_000_000;

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let mut wall = linker.instance(&versioned("wasi:clocks/wall-clock"))?;
    wall.func_wrap("now", |mut store: Store<'_>, (): ()| {
        let ms = store.data_mut().commands.now_ms();
        let nanoseconds = u32::try_from(ms % 1000 * NS_PER_MS)?;
        Ok((Datetime { seconds: ms / 1000, nanoseconds },))
    })?;
    wall.func_wrap("resolution", |_: Store<'_>, (): ()| {
        Ok((Datetime { seconds: 0, nanoseconds: u32::try_from(NS_PER_MS)? },))
    })?;

    let mut monotonic = linker.instance(&versioned("wasi:clocks/monotonic-clock"))?;
    monotonic.func_wrap("now", |mut store: Store<'_>, (): ()| Ok((monotonic_ns(&mut store),)))?;
    monotonic.func_wrap("resolution", |_: Store<'_>, (): ()| Ok((NS_PER_MS,)))?;
    monotonic.func_wrap("subscribe-instant", |mut store: Store<'_>, (at_ns,): (u64,)| {
        Ok((Pollable::AtNs(at_ns).push(&mut store)?,))
    })?;
    monotonic.func_wrap("subscribe-duration", |mut store: Store<'_>, (ns,): (u64,)| {
        let at = monotonic_ns(&mut store).saturating_add(ns);
        Ok((Pollable::AtNs(at).push(&mut store)?,))
    })
}

/// The guest's monotonic clock.
pub(super) fn monotonic_ns(store: &mut Store<'_>) -> u64 {
    let guest = store.data_mut();
    let ahead_ns = *guest.wasi.ahead_ns(guest.shared.deliveries());
    guest.commands.now_ms().saturating_mul(NS_PER_MS).saturating_add(ahead_ns)
}
