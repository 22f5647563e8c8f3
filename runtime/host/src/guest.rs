//! What belongs to one guest instance: the data of its store.

use std::sync::Arc;

use wasmtime::{Engine, Store};

use crate::commands::Commands;
use crate::limits::Limits;
use crate::memory::MemoryShare;
use crate::settings::HostSettings;
use crate::turn::Shared;
use crate::wasi::Wasi;

pub(crate) struct Guest {
    pub(crate) commands: Box<dyn Commands>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) wasi: Wasi,
    limits: Limits,
}

impl Guest {
    /// A store for one instance, with its limits and its epochs set: also what it does while it is instantiated is bounded.
    pub(crate) fn store(
        engine: &Engine,
        settings: &HostSettings,
        shared: Arc<Shared>,
        commands: Box<dyn Commands>,
        share: Arc<MemoryShare>,
    ) -> Store<Self> {
        let guest =
            Self { commands, shared: shared.clone(), wasi: Wasi::default(), limits: Limits::new(settings, share) };
        let mut store = Store::new(engine, guest);
        store.limiter(|guest| &mut guest.limits);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |_| shared.at_epoch());
        store
    }

    /// Logs what is left of standard output and error, when no more can come.
    pub(crate) fn end(&mut self) {
        self.wasi.end(&mut *self.commands);
    }
}
