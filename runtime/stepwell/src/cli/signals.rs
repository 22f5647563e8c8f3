//! Ctrl-C, and the system's polite request to end. Listened to from the start, so that none is lost between two waits.

use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::Exit;

/// The two signals. Made once a process.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, ExitCode> {
        let listen =
            |kind| signal(kind).map_err(|error| Exit::Failed.with(format!("signals cannot be listened to: {error}")));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// The next of them, also one that came before this was asked.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
