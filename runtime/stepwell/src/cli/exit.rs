//! How a command ends: documented exit codes, and errors on stderr in one form.

use std::process::ExitCode;

/// Shown below every help text.
pub(super) const HELP: &str = "\
Exit codes:
  0    done; for `run`, the workflow succeeded
  1    the workflow failed or was cancelled
  2    the command line or an input is wrong
  3    the source does not build, or the module is none
  4    the run stopped and needs somebody: an unknown outcome, a replay that differs, a limit
  5    the run succeeded, but its replay differs from it
  6    Stepwell itself could not go on: the disk, another process in the data directory, no answer from the server
  7    the run has not ended within the time that `start --wait` was given; it goes on
  130  stopped by Ctrl-C; the run can be resumed";

/// The exit codes, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    RunFailed = 1,
    Usage = 2,
    Build = 3,
    NeedsSomebody = 4,
    ReplayDiffers = 5,
    Failed = 6,
    NotYet = 7,
    Stopped = 130,
}

impl Exit {
    /// This code, after a word on stderr about what, where and what to do.
    pub(crate) fn with(self, message: impl std::fmt::Display) -> ExitCode {
        say!("{}error:{} {message}", style(anstyle::AnsiColor::Red).render(), anstyle::Reset.render());
        self.into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

pub(super) fn style(colour: anstyle::AnsiColor) -> anstyle::Style {
    anstyle::Style::new().bold().fg_color(Some(colour.into()))
}
