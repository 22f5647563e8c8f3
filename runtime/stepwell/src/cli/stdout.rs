//! Standard output. One that takes no more ends no run: what could not be written is said once, and in the exit code.

use std::io::{self, Write as _};
use std::process::ExitCode;

use super::exit::Exit;

/// Writes lines, and remembers the first failure.
#[derive(Default)]
pub(super) struct Stdout {
    failure: Option<io::Error>,
}

impl Stdout {
    pub(super) fn line(&mut self, text: impl std::fmt::Display) {
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = writeln!(anstream::stdout(), "{text}") {
            say!("nothing more can be written to standard output: {error}; the run goes on");
            self.failure = Some(error);
        }
    }

    /// The exit code, once all is written. A reader that has gone away (a closed pipe) has seen what it wanted.
    pub(super) fn finish(self, exit: ExitCode) -> ExitCode {
        match self.failure {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe && exit == Exit::Done.into() => Exit::Failed.with(
                format!("the run succeeded, but its result could not be written: {error}. `stepwell runs show` has it"),
            ),
            _ => exit,
        }
    }
}
