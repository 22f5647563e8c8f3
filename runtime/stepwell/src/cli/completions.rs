//! `stepwell completions`: the script by which a shell completes the command line.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use super::exit::Exit;

/// Arguments of `stepwell completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell completions bash > ~/.local/share/bash-completion/completions/stepwell
  stepwell completions zsh > \"${fpath[1]}/_stepwell\"
  stepwell completions fish > ~/.config/fish/completions/stepwell.fish")]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Prints the script for `command`. A reader that has gone away wanted no more.
pub(super) fn run(args: &CompletionsArgs, command: &mut Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "stepwell", &mut script);
    match std::io::stdout().write_all(&script) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Exit::Failed.with(format!("the script cannot be written: {error}"))
        }
        _ => Exit::Done.into(),
    }
}
