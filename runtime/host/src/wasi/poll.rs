//! `wasi:io/poll`: what a guest may wait for. Nothing takes time here: streams are ready, and a wait for the clock ends at once with
//! the guest's monotonic clock moved on. Time that is to pass is asked for by the contract's `sleep` and `delay`.

use wasmtime::component::{Linker, Resource};

use super::clocks::monotonic_ns;
use super::{Kind, Store, versioned};
use crate::guest::Guest;

#[derive(Clone, Copy)]
pub(super) enum Pollable {
    Ready,
    /// From this time of the guest's monotonic clock on.
    AtNs(u64),
}

impl Kind for Pollable {
    const NAME: &'static str = "pollable";
}

impl Pollable {
    pub(super) fn push(self, store: &mut Store<'_>) -> wasmtime::Result<Resource<Self>> {
        Ok(store.data_mut().wasi.table.push(self)?)
    }

    fn due_ns(self) -> u64 {
        match self {
            Self::Ready => 0,
            Self::AtNs(at) => at,
        }
    }
}

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let mut poll = linker.instance(&versioned("wasi:io/poll"))?;
    poll.resource(Pollable::NAME, Pollable::ty(), Pollable::drop)?;
    poll.func_wrap("[method]pollable.ready", |mut store: Store<'_>, (pollable,): (Resource<Pollable>,)| {
        let due = store.data().wasi.table.get(&pollable)?.due_ns();
        Ok((due <= monotonic_ns(&mut store),))
    })?;
    poll.func_wrap("[method]pollable.block", |mut store: Store<'_>, (pollable,): (Resource<Pollable>,)| {
        let due = store.data().wasi.table.get(&pollable)?.due_ns();
        wait_until(&mut store, due);
        Ok(())
    })?;
    poll.func_wrap("poll", |mut store: Store<'_>, (pollables,): (Vec<Resource<Pollable>>,)| {
        let table = &store.data().wasi.table;
        let dues = pollables.iter().map(|p| Ok(table.get(p)?.due_ns())).collect::<wasmtime::Result<Vec<_>>>()?;
        let Some(earliest) = dues.iter().min() else {
            return Err(wasmtime::Error::msg("the guest polled nothing"));
        };
        let now = wait_until(&mut store, *earliest);
        let ready = (0_u32..).zip(&dues).filter(|(_, due)| **due <= now).map(|(at, _)| at);
        Ok((ready.collect::<Vec<u32>>(),))
    })
}

/// The guest's clock, moved on to `due_ns` if that is later.
fn wait_until(store: &mut Store<'_>, due_ns: u64) -> u64 {
    let now = monotonic_ns(store);
    let guest = store.data_mut();
    let ahead_ns = guest.wasi.ahead_ns(guest.shared.deliveries());
    *ahead_ns = ahead_ns.saturating_add(due_ns.saturating_sub(now));
    now.max(due_ns)
}
