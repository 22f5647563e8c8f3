//! Progress of long work on stderr: a spinner on a terminal, nothing elsewhere until it is done.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

#[derive(Clone)]
pub(super) struct Progress {
    bar: ProgressBar,
    what: String,
    began: Instant,
}

impl Progress {
    pub(super) fn start(what: String) -> Self {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(what.clone());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, what, began: Instant::now() }
    }

    pub(super) fn stage(&self, stage: &str) {
        self.bar.set_message(format!("{}: {stage}", self.what));
    }

    /// Takes the spinner away and says what was done, with how long it took.
    pub(super) fn end(&self, done: Option<String>) {
        self.bar.finish_and_clear();
        if let Some(done) = done {
            say!("{done} in {:.1} s", self.began.elapsed().as_secs_f64());
        }
    }
}
