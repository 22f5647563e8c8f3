//! Lines on standard output and standard error. Neither ends a run or a server by taking no more: a full disk behind it, a reader that has
//! gone. What a run prints of its result is `stdout`'s.

use std::fmt::Arguments;
use std::io::{self, Write as _};

use super::exit::Exit;

/// A line on standard error, if that takes it.
macro_rules! say {
    ($($text:tt)*) => { $crate::cli::print::to_stderr(format_args!($($text)*)) };
}

/// A line on standard output of a command that has nothing to do but to print: where that takes no more, it is over.
macro_rules! show {
    ($($text:tt)*) => { $crate::cli::print::to_stdout(format_args!($($text)*)) };
}

pub(crate) fn to_stderr(text: Arguments<'_>) {
    // There is nobody left to tell.
    let _ = writeln!(anstream::stderr(), "{text}");
}

pub(crate) fn to_stdout(text: Arguments<'_>) {
    let Err(error) = writeln!(anstream::stdout(), "{text}") else { return };
    // A reader that has gone away has seen what it wanted.
    let exit = if error.kind() == io::ErrorKind::BrokenPipe { Exit::Done } else { Exit::Failed };
    if exit != Exit::Done {
        say!("nothing more can be written to standard output: {error}");
    }
    std::process::exit(i32::from(exit as u8));
}
