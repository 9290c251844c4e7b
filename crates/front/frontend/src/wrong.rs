//! Errors as text for the user, classified by kind.

use std::fmt;

use hostftl_drives::{DeviceSpec, DriveError};
use hostftl_sim::{Hole, StackError, StudyError};
use hostftl_trace::TraceError;

use crate::nearest;

/// Kind of an error, which determines exit codes and classes of exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongKind {
    /// The work failed.
    Failed,
    /// The request is invalid.
    Usage,
    /// A law was violated.
    Violation,
    /// The user cancelled the work.
    Interrupted,
}

/// An error message of one line. It names the file, line or device, and suggests an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Kind.
    pub kind: WrongKind,
    /// Message.
    pub text: String,
}

impl Wrong {
    /// Creates an error for work that failed.
    pub fn failed(text: impl fmt::Display) -> Self {
        Wrong { kind: WrongKind::Failed, text: text.to_string() }
    }

    /// Creates an error for an invalid request.
    pub fn usage(text: impl fmt::Display) -> Self {
        Wrong { kind: WrongKind::Usage, text: text.to_string() }
    }

    /// Creates an error for work that was cancelled.
    pub fn interrupted(text: impl fmt::Display) -> Self {
        Wrong { kind: WrongKind::Interrupted, text: text.to_string() }
    }

    /// Creates an error for a violated law.
    pub fn violation(text: impl fmt::Display) -> Self {
        Wrong { kind: WrongKind::Violation, text: text.to_string() }
    }

    /// Returns the first violated law of `holes`, or else the first failure of this machine. `None`
    /// if every hole is an impossible combination, which is a result and not a failure.
    pub fn of_holes(holes: &[Hole]) -> Option<Self> {
        let violation = holes.iter().find(|hole| hole.is_violation());
        let violation = violation.map(|hole| Wrong::violation(hole.reason()));
        let of_machine = || holes.iter().find(|hole| hole.is_of_machine());
        violation.or_else(|| of_machine().map(|hole| Wrong::failed(hole.reason())))
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<StudyError> for Wrong {
    fn from(error: StudyError) -> Self {
        match error {
            StudyError::Violation { .. } => Wrong::violation(error),
            StudyError::Trace(error) => error.into(),
            _ => Wrong::failed(error),
        }
    }
}

/// Errors in the user's text are usage errors. Errors in files or of the system are failures.
impl From<TraceError> for Wrong {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Options { .. } | TraceError::Workload { .. } | TraceError::Name { .. } => {
                Wrong::usage(error)
            }
            _ => Wrong::failed(error),
        }
    }
}

/// The same classes as for traces. Unknown names are reported with the nearest known one.
impl From<DriveError> for Wrong {
    fn from(error: DriveError) -> Self {
        match error {
            DriveError::Unknown { name, .. } => {
                let known: Vec<&str> = DeviceSpec::names().collect();
                let text = nearest::unlisted("drive", &name, &known);
                Wrong::usage(format!(
                    "{text}run `hostftl models` for the names, or give the path of a TOML file or \
                     an MQSim XML file"
                ))
            }
            DriveError::Option { .. } => Wrong::usage(error),
            _ => Wrong::failed(error),
        }
    }
}

impl From<StackError> for Wrong {
    fn from(error: StackError) -> Self {
        match error {
            StackError::Drive(error) => error.into(),
            StackError::Text(_) => Wrong::usage(error),
            StackError::File(_) => Wrong::failed(error),
        }
    }
}
