//! Error of a command: one line of text and an exit code.

use std::fmt;
use std::io;

use hostftl_frontend::{Wrong, WrongKind};

/// Exit codes, as listed by `hostftl --help`.
pub(crate) mod code {
    /// The command failed.
    pub(crate) const FAILED: u8 = 1;
    /// The command line is invalid.
    pub(crate) const USAGE: u8 = 2;
    /// An integrity check or a conservation law is violated.
    pub(crate) const VIOLATION: u8 = 3;
    /// The volume is usable, but needs the attention of an administrator.
    pub(crate) const NEEDS_ATTENTION: u8 = 4;
    /// A bug in HostFTL: a panic.
    pub(crate) const PANIC: u8 = 101;
    /// A signal ended the command early.
    pub(crate) const INTERRUPTED: u8 = 130;
    /// The reader of the output closed it. Nothing is printed, as if SIGPIPE had ended the process.
    pub(crate) const BROKEN_PIPE: u8 = 141;
}

/// Error of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Exit code, one of [`code`].
    pub code: u8,
    /// One line that names the file, line or device, and the remedy.
    pub text: String,
}

impl Failure {
    /// Creates a failure of the command.
    pub(crate) fn failed(text: impl fmt::Display) -> Self {
        Failure { code: code::FAILED, text: text.to_string() }
    }

    /// Creates a failure because of an invalid command line.
    pub(crate) fn usage(text: impl fmt::Display) -> Self {
        Failure { code: code::USAGE, text: text.to_string() }
    }

    /// Creates a failure because of a violated check or law.
    pub(crate) fn violation(text: impl fmt::Display) -> Self {
        Failure { code: code::VIOLATION, text: text.to_string() }
    }

    /// Creates a failure because of a volume that needs attention.
    pub(crate) fn needs_attention(text: impl fmt::Display) -> Self {
        Failure { code: code::NEEDS_ATTENTION, text: text.to_string() }
    }

    /// Creates a failure because of a signal.
    pub(crate) fn interrupted(text: impl fmt::Display) -> Self {
        Failure { code: code::INTERRUPTED, text: text.to_string() }
    }
}

/// Converts an error while printing.
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

/// Converts an error of a study.
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
