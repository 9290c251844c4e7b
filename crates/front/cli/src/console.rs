//! Where a command prints: text or JSON on standard output, one line per error.
//!
//! Invariant: nothing that is printed commands a terminal, wherever it comes from. Text is escaped
//! here; JSON has escapes of its own.

use std::fmt;
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::process::ExitCode;

use hostftl_format::letters::{Plain, PlainLines};
use serde::Serialize;

use crate::failure::{Failure, code};

/// The width of a paragraph.
const COLUMNS: usize = 96;

/// Prints one line on standard error at once. The command goes on where that is closed.
pub(crate) fn notice(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "hostftl: {}", Plain(&text.to_string()));
}

/// Standard output, and whether it is to be JSON.
pub(crate) struct Console {
    json: bool,
    /// Whether a value was printed: then an error is no second one.
    told: bool,
    out: io::BufWriter<StdoutLock<'static>>,
}

impl Console {
    /// Standard output of this process.
    pub(crate) fn new(json: bool) -> Self {
        Console { json, told: false, out: io::BufWriter::new(io::stdout().lock()) }
    }

    /// Whether the user asked for JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether somebody watches the progress on standard error.
    pub(crate) fn is_watched(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Prints one line, at once.
    ///
    /// # Errors
    /// When the output is closed or full.
    pub(crate) fn line(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.out, "{}", Plain(&text.to_string()))?;
        Ok(())
    }

    /// Prints text that has several lines, such as a table.
    ///
    /// # Errors
    /// As [`Console::line`].
    pub(crate) fn lines(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.out, "{}", PlainLines(&text.to_string()))?;
        Ok(())
    }

    /// Prints text that HostFTL made alone, with colours.
    ///
    /// # Errors
    /// As [`Console::line`].
    pub(crate) fn coloured(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.out, "{text}")?;
        Ok(())
    }

    /// Prints one indented line: what it is, and its value.
    ///
    /// # Errors
    /// As [`Console::line`].
    pub(crate) fn field(&mut self, name: &str, text: impl fmt::Display) -> Result<(), Failure> {
        self.line(format_args!("  {name:<10} {text}"))
    }

    /// Prints `text` in lines of at most 96 columns.
    ///
    /// # Errors
    /// As [`Console::line`].
    pub(crate) fn paragraph(&mut self, text: &str) -> Result<(), Failure> {
        self.indented("", text)
    }

    /// As [`Console::paragraph`], with `indent` before each line.
    ///
    /// # Errors
    /// As [`Console::line`].
    pub(crate) fn indented(&mut self, indent: &str, text: &str) -> Result<(), Failure> {
        self.wrapped(indent.into(), indent, text)
    }

    /// As [`Console::paragraph`], behind `head` and, in the lines that follow, below the text.
    ///
    /// # Errors
    /// As [`Console::line`].
    pub(crate) fn hanging(&mut self, head: &str, text: &str) -> Result<(), Failure> {
        self.wrapped(head.into(), &" ".repeat(head.chars().count()), text)
    }

    fn wrapped(&mut self, mut line: String, indent: &str, text: &str) -> Result<(), Failure> {
        for word in text.split(' ') {
            let is_begun = line.len() > indent.len();
            if is_begun && line.chars().count() + 1 + word.chars().count() > COLUMNS {
                self.line(std::mem::replace(&mut line, indent.into()))?;
            } else if is_begun {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(line)
    }

    /// Prints `value` as JSON.
    ///
    /// # Errors
    /// As [`Console::line`].
    pub(crate) fn value(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        self.told = true;
        let text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
        self.lines(text)
    }

    /// Hands on everything that was printed.
    ///
    /// # Errors
    /// As [`Console::line`].
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    /// Prints `failure` on standard error, and on standard output too when that should be JSON and
    /// has nothing else.
    pub(crate) fn fail(&mut self, failure: &Failure) -> ExitCode {
        let flushed = self.out.flush();
        if failure.code != code::BROKEN_PIPE {
            // The exit code remains where standard error is closed.
            notice(&failure.text);
            if self.json && !self.told && flushed.is_ok() {
                let _ = self.value(&serde_json::json!({ "error": failure.text }));
                let _ = self.out.flush();
            }
        }
        ExitCode::from(failure.code)
    }
}
