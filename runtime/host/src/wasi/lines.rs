//! Bytes that a guest writes, as lines of the run's log.

use stepwell_core::contract::Level;
use stepwell_core::limits::MAX_LOG_LINE_BYTES;

use crate::commands::Commands;

/// A stream's line under way.
pub(super) struct Lines {
    level: Level,
    line: Vec<u8>,
}

impl Lines {
    pub(super) fn new(level: Level) -> Self {
        Self { level, line: Vec::new() }
    }

    /// Logs each line that is complete. Of a line that is too long the beginning is kept.
    pub(super) fn write(&mut self, bytes: &[u8], commands: &mut dyn Commands) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let room = MAX_LOG_LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() < part.len() {
                self.log(commands);
            }
        }
    }

    /// Logs what is left.
    pub(super) fn end(&mut self, commands: &mut dyn Commands) {
        if !self.line.is_empty() {
            self.log(commands);
        }
    }

    fn log(&mut self, commands: &mut dyn Commands) {
        let line = std::mem::take(&mut self.line);
        let mut text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
        text.truncate(text.floor_char_boundary(MAX_LOG_LINE_BYTES));
        commands.log(self.level, text, None);
    }
}
