//! What went wrong, in words for the user, and of what kind it is.

use std::fmt;

use hostftl_drives::{DeviceSpec, DriveError};
use hostftl_sim::{Hole, StackError, StudyError};
use hostftl_trace::TraceError;

use crate::nearest;

/// Of what kind a fault is: exit codes and classes of exceptions follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongKind {
    /// The work could not be done.
    Failed,
    /// What was asked makes no sense.
    Usage,
    /// A law that must hold does not.
    Violation,
    /// The user ended the work early.
    Interrupted,
}

/// One line for the user: it names the file, line or device, and says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Of what kind it is.
    pub kind: WrongKind,
    /// The line.
    pub text: String,
}

impl Wrong {
    /// The work could not be done.
    pub fn failed(text: impl fmt::Display) -> Self {
        Wrong { kind: WrongKind::Failed, text: text.to_string() }
    }

    /// What was asked makes no sense.
    pub fn usage(text: impl fmt::Display) -> Self {
        Wrong { kind: WrongKind::Usage, text: text.to_string() }
    }

    /// The user ended the work early.
    pub fn interrupted(text: impl fmt::Display) -> Self {
        Wrong { kind: WrongKind::Interrupted, text: text.to_string() }
    }

    /// A law that must hold does not.
    pub fn violation(text: impl fmt::Display) -> Self {
        Wrong { kind: WrongKind::Violation, text: text.to_string() }
    }

    /// The first broken law of `holes`, or else the first failure of this machine. Nothing when
    /// every hole is a combination that can't be: that is an answer, not a failure.
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

/// What a user wrote is usage; what stands in a file, or a system says, is not.
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

/// As of a trace; a name that is none is told with the nearest.
impl From<DriveError> for Wrong {
    fn from(error: DriveError) -> Self {
        match error {
            DriveError::Unknown { name, .. } => {
                let known: Vec<&str> = DeviceSpec::names().collect();
                let text = nearest::unknown("drive", &name, &known);
                Wrong::usage(format!("{text}, or the path of a TOML file or of MQSim's XML"))
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
