//! What went wrong, for a person and for a script.

use std::fmt;
use std::io;

use hostftl_frontend::{Wrong, WrongKind};

/// The exit codes of `hostftl`; `hostftl --help` lists them.
pub(crate) mod code {
    /// The command could not do its work.
    pub(crate) const FAILED: u8 = 1;
    /// The command line makes no sense.
    pub(crate) const USAGE: u8 = 2;
    /// An integrity check or a conservation law does not hold.
    pub(crate) const VIOLATION: u8 = 3;
    /// A volume is served or could be, but somebody should do something about it.
    pub(crate) const NEEDS_ATTENTION: u8 = 4;
    /// A fault of HostFTL itself: a panic.
    pub(crate) const PANIC: u8 = 101;
    /// Ctrl-C or SIGTERM ended the work early.
    pub(crate) const INTERRUPTED: u8 = 130;
    /// Whoever read the output is gone; nothing is printed, as if SIGPIPE had ended the process.
    pub(crate) const BROKEN_PIPE: u8 = 141;
}

/// One line for the user, and the exit code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// See [`code`].
    pub code: u8,
    /// Names the file, line or device, and says what to do.
    pub text: String,
}

impl Failure {
    /// The command could not do its work.
    pub(crate) fn failed(text: impl fmt::Display) -> Self {
        Failure { code: code::FAILED, text: text.to_string() }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(text: impl fmt::Display) -> Self {
        Failure { code: code::USAGE, text: text.to_string() }
    }

    /// A law that must hold does not.
    pub(crate) fn violation(text: impl fmt::Display) -> Self {
        Failure { code: code::VIOLATION, text: text.to_string() }
    }

    /// Somebody should do something about a volume.
    pub(crate) fn needs_attention(text: impl fmt::Display) -> Self {
        Failure { code: code::NEEDS_ATTENTION, text: text.to_string() }
    }

    /// The user ended the work early.
    pub(crate) fn interrupted(text: impl fmt::Display) -> Self {
        Failure { code: code::INTERRUPTED, text: text.to_string() }
    }
}

/// An error while printing.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => {
                Failure { code: code::BROKEN_PIPE, text: "the output was closed".into() }
            }
            _ => Failure::failed(format!("cannot print: {error}")),
        }
    }
}

/// What is wrong with a study.
impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Self {
        let code = match wrong.kind {
            WrongKind::Failed => code::FAILED,
            WrongKind::Usage => code::USAGE,
            WrongKind::Violation => code::VIOLATION,
            WrongKind::Interrupted => code::INTERRUPTED,
        };
        Failure { code, text: wrong.text }
    }
}
