//! Killing the process under test, as a machine's failure would: with no chance to say anything.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a killed process may take to stop.
const DYING: Duration = Duration::from_secs(5);

/// The process id in the file, which is read now and not earlier.
///
/// # Errors
/// When there is no file, or no process id in it.
pub(crate) fn read_pid(file: Option<&Path>) -> Result<u32, String> {
    let file = file.ok_or("no --victim-pid-file was given")?;
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    match text.trim().parse() {
        // Process 1 and 0 (our own group) are nobody's to kill by mistake.
        Ok(pid) if pid > 1 => Ok(pid),
        _ => Err(format!("{} holds no process id", file.display())),
    }
}

/// Sends SIGKILL and waits until the process executes nothing more, so that what happens on the connection afterwards is seen by
/// nobody. Blocks.
///
/// # Errors
/// When the process cannot be signalled or does not stop.
pub(crate) fn kill(pid: u32) -> Result<(), String> {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(_) => return Err(format!("there is no process {pid} to kill")),
        Err(e) => return Err(format!("kill: {e}")),
    }
    let deadline = Instant::now() + DYING;
    while executes(pid) {
        if Instant::now() > deadline {
            return Err(format!("process {pid} does not die"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A process that nobody has waited for yet is a zombie, and executes nothing. Where there is no `/proc`, the signal is trusted.
fn executes(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // `pid (name) state ...`, and the name may hold anything, brackets too.
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}
