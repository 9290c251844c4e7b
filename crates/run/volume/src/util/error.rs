//! Errors of a volume. Each message names the file or device and a remedy.

use std::io;
use std::path::{Path, PathBuf};

use hostftl_io::IoError;
use serde::{Deserialize, Serialize};

/// Error of an operation on a volume.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Error of a device or the engine.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A device failed, and the volume accepts no writes any more.
    #[error("{0}")]
    Failed(String),
    /// The layer could not be started or stopped.
    #[error("{source}: {troubles}")]
    Recovery {
        /// Direct cause.
        source: IoError,
        /// Events that led to it, with the devices.
        troubles: String,
    },
    /// The system refused an operation on a file that is not a device.
    #[error("{}: cannot {what}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Operation that failed.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The volume file is invalid.
    #[error("{}: {why}", path.display())]
    Config {
        /// Path of the file.
        path: PathBuf,
        /// Problem, with the line.
        why: String,
    },
    /// Another process has the volume open.
    #[error("{} is in use by {holder}; stop it first", path.display())]
    Busy {
        /// Path of the volume file.
        path: PathBuf,
        /// The process.
        holder: String,
    },
    /// A copy of the volume, or another half of it, is served.
    #[error(
        "{}: {holder} already serves volume {volume} from {theirs}, of which this is a copy or \
         another part; stop that process first", path.display()
    )]
    Served {
        /// Path of the volume file.
        path: PathBuf,
        /// UUID of the volume.
        volume: uuid::Uuid,
        /// The process that serves it.
        holder: String,
        /// Volume file of that process.
        theirs: String,
    },
    /// An operator's request was refused; nothing was changed.
    #[error("{}: {why}", path.display())]
    Refused {
        /// Path of the volume file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// A request to a volume, served or not, ended with an error of another kind than
    /// [`AdminErrorKind::Refused`].
    #[error("{}: {error}", path.display())]
    Admin {
        /// Path of the volume file.
        path: PathBuf,
        /// Reason and kind.
        error: AdminError,
    },
    /// The request is invalid, regardless of the devices.
    #[error("{0}")]
    Asked(String),
    /// A file exists that `create` or `import` would have to replace.
    #[error("{} exists; remove it or choose another name", path.display())]
    Exists {
        /// Path of the file.
        path: PathBuf,
    },
    /// A device can't be used in its current state.
    #[error("{device}: {why}")]
    Device {
        /// Name of the device.
        device: String,
        /// Problem and remedy.
        why: String,
    },
    /// A device holds a format that this version does not support.
    #[error("{device}: {why}")]
    Format {
        /// Name of the device.
        device: String,
        /// The format, the supported formats, and the remedy.
        why: String,
    },
    /// Creating a volume failed after its devices were written to.
    #[error("{source}; formatting had started, so {lost}")]
    Formatting {
        /// Cause.
        source: Box<Error>,
        /// Devices that were changed, with their lost content and the reason.
        lost: String,
    },
    /// The layer can't work on these devices.
    #[error("layer {layer}: {why}")]
    Layer {
        /// Name of the layer.
        layer: String,
        /// Reason.
        why: String,
    },
    /// The devices are not a complete stack.
    #[error("{0}")]
    Stack(String),
    /// A backup of metadata can't be used.
    #[error("{}: {why}", path.display())]
    Backup {
        /// Path of the file.
        path: PathBuf,
        /// Problem.
        why: String,
    },
    /// A recording can't be replayed.
    #[error("{}: {why}", path.display())]
    Recording {
        /// Path of the file.
        path: PathBuf,
        /// Problem, and the number of good records.
        why: String,
    },
}

impl Error {
    /// Returns the kind of the error, which decides the exit code of a command.
    pub fn kind(&self) -> AdminErrorKind {
        match self {
            Error::Admin { error, .. } => error.kind,
            Error::Asked(_) | Error::Io(IoError::Name { .. }) => AdminErrorKind::Usage,
            Error::Io(IoError::Unrecoverable(_) | IoError::Stalled(_)) => AdminErrorKind::Violation,
            Error::Io(IoError::Interrupted { .. }) => AdminErrorKind::Interrupted,
            Error::Io(_)
            | Error::Failed(_)
            | Error::Recovery { .. }
            | Error::File { .. }
            | Error::Formatting { .. } => AdminErrorKind::Failed,
            Error::Config { .. }
            | Error::Busy { .. }
            | Error::Served { .. }
            | Error::Refused { .. }
            | Error::Exists { .. }
            | Error::Device { .. }
            | Error::Format { .. }
            | Error::Layer { .. }
            | Error::Stack(_)
            | Error::Backup { .. }
            | Error::Recording { .. } => AdminErrorKind::Refused,
        }
    }
}

/// Kind of an error. It is the same whether a request was carried out here or by the process that
/// serves the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdminErrorKind {
    /// The request is invalid for any volume.
    Usage,
    /// The volume or a device does not allow the request.
    Refused,
    /// The system, a device or the layer failed.
    Failed,
    /// Part of the request may have been carried out, or may not be durable.
    Unknown,
    /// The volume can't be recovered, or the layer stalled.
    Violation,
    /// The volume needs attention before the request can be carried out.
    NeedsHand,
    /// A signal ended the work early.
    Interrupted,
}

/// An error of a request to a volume, as it crosses the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct AdminError {
    /// Kind of the error.
    pub kind: AdminErrorKind,
    /// The cause and the remedy, without the name of the volume file.
    pub text: String,
}

impl AdminError {
    /// Creates an error of this kind.
    pub(crate) fn new(kind: AdminErrorKind, text: impl Into<String>) -> Self {
        AdminError { kind, text: text.into() }
    }

    /// Creates an error for a request that the volume or a device does not allow.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        AdminError::new(AdminErrorKind::Refused, text)
    }

    /// Returns the error of the same kind with the text that `words` makes of its text.
    pub(crate) fn reword(self, words: impl FnOnce(&str) -> String) -> Self {
        AdminError { text: words(&self.text), ..self }
    }

    /// Converts to the error of the volume whose file is `path`. A path at the start of the text is
    /// not repeated.
    pub(crate) fn at(mut self, path: &Path) -> Error {
        if let Some(text) = self.text.strip_prefix(&format!("{}: ", path.display())) {
            self.text = text.into();
        }
        match self.kind {
            AdminErrorKind::Refused => Error::Refused { path: path.into(), why: self.text },
            _ => Error::Admin { path: path.into(), error: self },
        }
    }
}

/// A request that the volume or a device does not allow.
impl From<String> for AdminError {
    fn from(text: String) -> Self {
        AdminError::refused(text)
    }
}

/// A request that the volume or a device does not allow.
impl From<&str> for AdminError {
    fn from(text: &str) -> Self {
        AdminError::refused(text)
    }
}

impl From<Error> for AdminError {
    fn from(error: Error) -> Self {
        match error {
            Error::Admin { error, .. } => error,
            other => AdminError::new(other.kind(), other.to_string()),
        }
    }
}

impl From<IoError> for AdminError {
    fn from(error: IoError) -> Self {
        Error::from(error).into()
    }
}

/// Returns a conversion of system errors on `path` to [`Error::File`].
pub(crate) fn file(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::File { path: path.into(), what, source }
}

/// Creates an [`Error::Device`].
pub(crate) fn device(device: &str, why: impl Into<String>) -> Error {
    Error::Device { device: device.into(), why: why.into() }
}
