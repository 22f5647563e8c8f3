//! What can go wrong between source and component, said so that the author knows where to look and what to do.

use std::fmt;
use std::path::PathBuf;

use crate::BuildLine;

/// Why source did not become a component.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The entry file or a module that it imports cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The source is wrong: all that was found, in the order of files and lines.
    #[error("{}", Listing(.0))]
    Source(Vec<Diagnostic>),
    /// Top-level code threw, or a promise that it awaits was rejected.
    #[error("{thrown}{}", Output(output))]
    Thrown {
        /// What was thrown.
        thrown: Thrown,
        /// What top-level code had printed.
        output: Vec<BuildLine>,
    },
    /// Top-level code was stopped: it ran too long, took too much memory, or asked the host for what only a run has.
    #[error("{message}{}", Output(output))]
    Stopped {
        /// What happened, and what to do.
        message: String,
        /// What top-level code had printed.
        output: Vec<BuildLine>,
    },
    /// The module was evaluated, and registered nothing.
    #[error(
        "{entry} registers no workflow.\n  Export one:\n\n    import {{ workflow }} from \"stepwell\";\n\n    \
         export const hello = workflow(\"hello\", async ({{ input, step }}) => {{\n      \
         return await step.run(\"greet\", () => `Hello, ${{input.name}}!`);\n    }});\n{}",
        Output(output)
    )]
    NoWorkflow {
        /// The entry file's name.
        entry: String,
        /// What top-level code had printed.
        output: Vec<BuildLine>,
    },
    /// The uploaded core module is no guest of this contract.
    #[error("{0}")]
    CoreModule(String),
    /// A defect or a lack of the build itself, not of the source.
    #[error("the build failed: {0:#}")]
    Internal(#[from] anyhow::Error),
}

/// One error in a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, relative to the entry's folder.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What to do about it, or what was tried.
    pub help: Option<String>,
    /// The line itself.
    pub text: String,
    /// How many characters of the line are meant, from `column`; at least 1.
    pub width: u32,
}

impl Diagnostic {
    /// An error at the bytes `start..end` of `source`.
    pub(crate) fn at(file: &str, source: &str, start: usize, end: usize, message: impl Into<String>) -> Self {
        let start = floor(source, start);
        let end = floor(source, end.max(start));
        let line_start = source[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |newline| start + newline);
        let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        Self {
            file: file.to_owned(),
            line: count(&source[..line_start].replace(|c| c != '\n', "")) + 1,
            column: count(&source[line_start..start]) + 1,
            message: message.into(),
            help: None,
            text: source[line_start..line_end].trim_end().to_owned(),
            width: count(&source[start..end.min(line_end)]).max(1),
        }
    }

    /// An error at a line and column, both from 1.
    pub(crate) fn at_line(file: &str, source: &str, line: usize, column: usize) -> Self {
        let start: usize = source.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
        let text = source.get(start..).and_then(|rest| rest.lines().next()).unwrap_or("");
        let before: usize = text.chars().take(column.saturating_sub(1)).map(char::len_utf8).sum();
        Self::at(file, source, start + before, start + before, "")
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The largest character boundary that is at most `index`.
fn floor(source: &str, index: usize) -> usize {
    let mut index = index.min(source.len());
    while !source.is_char_boundary(index) {
        index -= 1;
    }
    index
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, help, .. } = self;
        write!(f, "{file}:{line}:{column}: {message}\n{}", Excerpt(self))?;
        let gutter = " ".repeat(line.to_string().len());
        for line in help.iter().flat_map(|help| help.lines()) {
            write!(f, "\n  {gutter} = {line}")?;
        }
        Ok(())
    }
}

/// The line that a diagnostic means, and a caret below.
struct Excerpt<'a>(&'a Diagnostic);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { line, column, text, width, .. } = self.0;
        // A tab before the caret stays a tab, so that the caret stands below what it means.
        let before: String = text.chars().take(*column as usize - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
        let number = line.to_string();
        let gutter = " ".repeat(number.len());
        write!(f, "  {number} | {text}\n  {gutter} | {before}{}", "^".repeat(*width as usize))
    }
}

/// What top-level code threw.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Thrown {
    /// The error's type, e.g. `TypeError`; `None` for a value that is no error.
    pub name: Option<String>,
    /// Its message, or the value as text.
    pub message: String,
    /// Its frames, one a line, in the author's files and lines.
    pub stack: String,
    /// Its causes, outermost first, as `name: message`.
    #[serde(default)]
    pub causes: Vec<String>,
    /// The innermost frame in the author's files.
    #[serde(skip)]
    pub place: Option<Diagnostic>,
}

impl Thrown {
    /// File, line and column of each frame, innermost first.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.stack.lines().filter_map(|frame| {
            let place = frame.trim().trim_start_matches("at ").trim_end_matches(')');
            let place = place.rsplit_once('(').map_or(place, |(_, place)| place);
            let (place, column) = place.rsplit_once(':')?;
            let (file, line) = place.rsplit_once(':')?;
            Some((file, line.parse().ok()?, column.parse().ok()?))
        })
    }
}

impl fmt::Display for Thrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Diagnostic { file, line, column, .. }) = &self.place {
            write!(f, "{file}:{line}:{column}: ")?;
        }
        f.write_str("thrown while the module was being evaluated: ")?;
        match &self.name {
            Some(name) if self.message.is_empty() => f.write_str(name)?,
            Some(name) => write!(f, "{name}: {}", self.message)?,
            None => write!(f, "{} (a value that is not an Error)", self.message)?,
        }
        if let Some(place) = &self.place {
            write!(f, "\n{}", Excerpt(place))?;
        }
        for frame in self.stack.lines().filter(|line| !line.trim().is_empty()) {
            write!(f, "\n    {}", frame.trim())?;
        }
        for cause in &self.causes {
            write!(f, "\n  caused by {cause}")?;
        }
        Ok(())
    }
}

struct Listing<'a>(&'a [Diagnostic]);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

struct Output<'a>(&'a [BuildLine]);

impl fmt::Display for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        f.write_str("\n  printed before that:")?;
        for line in self.0 {
            write!(f, "\n    {}: {}", line.level, line.text)?;
        }
        Ok(())
    }
}
