//! Output of a command: text or JSON on standard output, one line on standard error for an error.
//!
//! Invariant: no text from outside reaches the terminal with control characters. Text is escaped
//! here; JSON has its own escapes.

use std::fmt;
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::process::ExitCode;

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table};
use hostftl_format::letters::{Plain, PlainLines};
use rustix::termios::tcgetwinsize;
use serde::Serialize;

use crate::failure::{Failure, code};

/// Width of a paragraph, in characters.
const COLUMNS: usize = 96;
/// Width of a narrow paragraph.
const NARROW: usize = 80;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColorChoice {
    fn is_on(self) -> bool {
        let is_off = || std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
        match self {
            ColorChoice::Auto => io::stdout().is_terminal() && !is_off(),
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        }
    }
}

/// Colour of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    /// Normal state.
    Green,
    /// Needs attention.
    Yellow,
    /// Data is lost or at risk.
    Red,
}

impl From<Color> for comfy_table::Color {
    fn from(color: Color) -> Self {
        match color {
            Color::Green => comfy_table::Color::Green,
            Color::Yellow => comfy_table::Color::Yellow,
            Color::Red => comfy_table::Color::Red,
        }
    }
}

/// Prints one line on standard error, unbuffered. A closed standard error is ignored.
pub(crate) fn notice(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "hostftl: {}", Plain(&text.to_string()));
}

/// Standard output as text or JSON.
pub(crate) struct Console {
    json: bool,
    is_coloured: bool,
    /// Whether a JSON value was printed; an error then prints no second one.
    has_value: bool,
    /// Width of a paragraph.
    columns: usize,
    /// Size of the terminal that was cleared, with the rows that are left.
    screen: Option<Screen>,
    out: io::BufWriter<StdoutLock<'static>>,
}

/// Terminal that is redrawn.
struct Screen {
    columns: usize,
    rows_left: usize,
}

impl Console {
    /// Returns the standard output of this process.
    pub(crate) fn new(json: bool, color: ColorChoice) -> Self {
        let out = io::BufWriter::new(io::stdout().lock());
        Console {
            json,
            is_coloured: color.is_on(),
            has_value: false,
            columns: COLUMNS,
            screen: None,
            out,
        }
    }

    /// Wraps further paragraphs at 80 columns.
    pub(crate) fn narrow(&mut self) {
        self.columns = NARROW;
    }

    /// Returns whether `--json` was given.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Returns whether standard error is a terminal, so that progress can be shown.
    pub(crate) fn is_watched(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Returns whether standard output is a terminal that can be redrawn.
    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Returns `text`, which has no control characters, in a colour.
    pub(crate) fn paint(&self, color: Color, text: &str) -> String {
        let code = match color {
            Color::Green => 32,
            Color::Yellow => 33,
            Color::Red => 31,
        };
        if self.is_coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Limits a table to `$COLUMNS`, or else to the width of the terminal, and sets its colours.
    pub(crate) fn fit(&self, mut table: Table) -> Table {
        let columns = std::env::var("COLUMNS").ok().and_then(|it| it.parse().ok());
        table.set_content_arrangement(ContentArrangement::Dynamic);
        if let Some(width) = columns.filter(|it| *it > 0).or_else(|| table.width()) {
            table.set_width(width);
        }
        if self.is_coloured {
            table.enforce_styling()
        } else {
            table.force_no_tty()
        };
        table
    }

    /// Prints one line.
    pub(crate) fn line(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        self.coloured(Plain(&text.to_string()))
    }

    /// Prints several lines, such as a table.
    pub(crate) fn lines(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.out, "{}", PlainLines(&text.to_string()))?;
        Ok(())
    }

    /// Prints text with colour codes. It is not escaped; parts from outside must be escaped before.
    pub(crate) fn coloured(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        let text = text.to_string();
        if let Some(screen) = &mut self.screen {
            let rows = |line: &str| line.chars().count().div_ceil(screen.columns).max(1);
            let rows = text.split('\n').map(rows).sum();
            // The first lines are the most important ones and must not scroll away.
            screen.rows_left = screen.rows_left.saturating_sub(rows);
            if screen.rows_left == 0 {
                return Ok(());
            }
        }
        writeln!(self.out, "{text}")?;
        Ok(())
    }

    /// Prints one indented line: label and value.
    pub(crate) fn field(&mut self, name: &str, text: impl fmt::Display) -> Result<(), Failure> {
        self.line(format_args!("  {name:<10} {text}"))
    }

    /// Prints `text`, wrapped at 96 columns unless the console is narrow.
    pub(crate) fn paragraph(&mut self, text: &str) -> Result<(), Failure> {
        self.indented("", text)
    }

    /// Prints `text`, wrapped at 96 columns, with `indent` before each line.
    pub(crate) fn indented(&mut self, indent: &str, text: &str) -> Result<(), Failure> {
        self.wrapped(indent.into(), indent, text)
    }

    /// Prints `text`, wrapped at 96 columns, after `head`. Further lines are aligned with the text.
    pub(crate) fn hanging(&mut self, head: &str, text: &str) -> Result<(), Failure> {
        self.wrapped(head.into(), &" ".repeat(head.chars().count()), text)
    }

    fn wrapped(&mut self, mut line: String, indent: &str, text: &str) -> Result<(), Failure> {
        for word in text.split(' ') {
            let is_begun = line.len() > indent.len();
            if is_begun && line.chars().count() + 1 + word.chars().count() > self.columns {
                self.line(std::mem::replace(&mut line, indent.into()))?;
            } else if is_begun {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(line)
    }

    /// Prints `value` as JSON.
    pub(crate) fn value(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        self.has_value = true;
        let text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
        self.lines(text)
    }

    /// Clears the terminal and moves the cursor to its top. Further lines are dropped when the
    /// terminal is full.
    pub(crate) fn clear(&mut self) -> Result<(), Failure> {
        let size = tcgetwinsize(io::stdout()).ok().filter(|it| it.ws_col > 0 && it.ws_row > 0);
        self.screen =
            size.map(|it| Screen { columns: it.ws_col.into(), rows_left: it.ws_row.into() });
        write!(self.out, "\x1b[H\x1b[2J")?;
        Ok(())
    }

    /// Flushes the buffered output.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    /// Prints `failure` on standard error; also as JSON on standard output if that is still empty.
    pub(crate) fn fail(&mut self, failure: &Failure) -> ExitCode {
        let flushed = self.out.flush();
        if failure.code != code::BROKEN_PIPE {
            // With standard error closed, only the exit code reports the failure.
            notice(&failure.text);
            if self.json && !self.has_value && flushed.is_ok() {
                let _ = self.value(&serde_json::json!({ "error": failure.text }));
                let _ = self.out.flush();
            }
        }
        ExitCode::from(failure.code)
    }
}
