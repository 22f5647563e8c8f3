//! A running program: its lines as they come, its end.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

/// How long a program may say nothing and not end. No test waits for this: who runs into it has hung.
pub(crate) const HANGS: Duration = Duration::from_secs(120);

/// A program under way. It is killed when this is dropped.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    seen: Finished,
}

/// What a program said and how it ended.
#[derive(Debug, Default)]
pub struct Finished {
    /// The exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The lines of stdout that are JSON objects.
    pub events: Vec<Value>,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

impl Running {
    /// Starts a program in a process group of its own.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut stderr = child.stderr.take().expect("stderr is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self { child, lines, stderr: Some(stderr), seen: Finished::default() }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of stdout; none at its end.
    ///
    /// # Panics
    /// If it hangs.
    pub fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(HANGS) {
            Ok(line) => {
                self.seen.stdout.push_str(&line);
                self.seen.stdout.push('\n');
                if let Ok(event @ Value::Object(_)) = serde_json::from_str(&line) {
                    self.seen.events.push(event);
                }
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                panic!("it neither speaks nor ends: {:#?}", self.collect());
            }
        }
    }

    /// The next JSON line; none at the end.
    pub fn next_event(&mut self) -> Option<Value> {
        loop {
            let before = self.seen.events.len();
            self.next_line()?;
            if self.seen.events.len() > before {
                return self.seen.events.last().cloned();
            }
        }
    }

    /// Reads on until an event that `wanted` answers something for.
    ///
    /// # Panics
    /// If there is none.
    pub fn until<T>(&mut self, mut wanted: impl FnMut(&Value) -> Option<T>) -> T {
        while let Some(event) = self.next_event() {
            if let Some(found) = wanted(&event) {
                return found;
            }
        }
        panic!("it ended without what was waited for: {:#?}", self.collect());
    }

    /// Sends a signal by its name, e.g. `INT`.
    ///
    /// # Panics
    /// If there is no such process any more.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -{name} {}", self.pid());
    }

    /// SIGKILL, and waits until it is dead. Nothing happens where it has ended already.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it hangs.
    #[must_use]
    pub fn wait(mut self) -> Finished {
        while self.next_line().is_some() {}
        self.collect()
    }

    fn collect(&mut self) -> Finished {
        while self.lines.try_recv().is_ok_and(|line| {
            self.seen.stdout.push_str(&line);
            self.seen.stdout.push('\n');
            true
        }) {}
        let status: ExitStatus = self.child.wait().expect("the child can be waited for");
        let mut seen = std::mem::take(&mut self.seen);
        seen.code = status.code();
        seen.signal = status.signal();
        seen.stderr = self.stderr.take().and_then(|stderr| stderr.join().ok()).unwrap_or_default();
        seen
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Finished {
    /// Itself, if it ended with this code.
    ///
    /// # Panics
    /// If not.
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// The events of a kind, e.g. `ended`.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["event"] == kind)
    }

    /// The journal entries of a kind, e.g. `dispatched`, among the events.
    pub fn entries<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.of_kind("entry").filter_map(move |event| event["entry"].get(kind))
    }

    /// The result of the run that succeeded.
    ///
    /// # Panics
    /// If none did.
    #[must_use]
    pub fn result(&self) -> &Value {
        let ended = self.of_kind("ended").last().unwrap_or_else(|| panic!("the run did not end: {self:#?}"));
        assert_eq!(ended["status"], "succeeded", "{self:#?}");
        &ended["result"]
    }

    /// The error of the run that failed.
    ///
    /// # Panics
    /// If none did.
    #[must_use]
    pub fn error(&self) -> &Value {
        let ended = self.of_kind("ended").last().unwrap_or_else(|| panic!("the run did not end: {self:#?}"));
        assert_eq!(ended["status"], "failed", "{self:#?}");
        &ended["error"]
    }
}
