//! WASI 0.2, as far as guest toolchains need it to start: a clock, randomness, and somewhere to write lines to.
//!
//! Clock and randomness are the engine's, so that a replay sees what the first execution saw. Standard output and error become
//! lines of the run's log. Everything else is there and empty: no files, no sockets, no environment, see `closed`.

mod cli;
mod clocks;
mod closed;
mod lines;
mod poll;
mod random;
mod streams;

use stepwell_core::contract::Level;
use wasmtime::component::{Linker, Resource, ResourceTable};
use wasmtime::{StoreContextMut, component::ResourceType};

pub(crate) use closed::{close, is_closed};
use lines::Lines;

use crate::commands::Commands;
use crate::guest::Guest;

/// The version that the interfaces are defined at. wasmtime gives it to guests that were made for any other 0.2.
const VERSION: &str = "0.2.12";

/// The interfaces that answer with more than nothing.
pub(crate) const OFFERED: &[&str] = &[
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
];

/// What WASI keeps for one guest.
pub(crate) struct Wasi {
    table: ResourceTable,
    stdout: Lines,
    stderr: Lines,
    /// How far the guest's monotonic clock is ahead, in ns: what it has waited for, since its waits end at once. Of that turn alone
    /// (by deliveries so far): a body's waits must not be seen by workflow code, which replays without them.
    ahead: (u64, u64),
}

impl Default for Wasi {
    fn default() -> Self {
        // Streams and pollables that a guest holds at once: without a bound it could fill our memory with them.
        let mut table = ResourceTable::new();
        table.set_max_capacity(10_000);
        Self { table, stdout: Lines::new(Level::Info), stderr: Lines::new(Level::Warn), ahead: (0, 0) }
    }
}

impl Wasi {
    /// How far the monotonic clock is ahead in the turn after so many deliveries.
    fn ahead_ns(&mut self, deliveries: u64) -> &mut u64 {
        if self.ahead.0 != deliveries {
            self.ahead = (deliveries, 0);
        }
        &mut self.ahead.1
    }

    /// Logs what was written without an end of line, when no more can come.
    pub(crate) fn end(&mut self, commands: &mut dyn Commands) {
        self.stdout.end(commands);
        self.stderr.end(commands);
    }
}

/// Adds the offered interfaces.
pub(crate) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    streams::add_to_linker(linker)?;
    poll::add_to_linker(linker)?;
    clocks::add_to_linker(linker)?;
    random::add_to_linker(linker)?;
    cli::add_to_linker(linker)
}

fn versioned(interface: &str) -> String {
    format!("{interface}@{VERSION}")
}

type Store<'a> = StoreContextMut<'a, Guest>;

/// A kind of thing that guests hold by number.
trait Kind: Send + Sized + 'static {
    const NAME: &'static str;

    fn ty() -> ResourceType {
        ResourceType::host::<Self>()
    }

    /// What the guest's dropping it does.
    fn drop(mut store: Store<'_>, number: u32) -> wasmtime::Result<()> {
        store.data_mut().wasi.table.delete(Resource::<Self>::new_own(number))?;
        Ok(())
    }
}
