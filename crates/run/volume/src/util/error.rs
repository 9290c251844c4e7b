//! What can go wrong with a volume, in words that name the file or device and what to do.

use std::io;
use std::path::{Path, PathBuf};

use hostftl_io::IoError;
use serde::{Deserialize, Serialize};

/// See the module text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A device or the engine.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A device failed such that nothing can be written any more.
    #[error("{0}")]
    Failed(String),
    /// The layer could not be started or stopped.
    #[error("{source}: {troubles}")]
    Recovery {
        /// What ended it.
        source: IoError,
        /// What led to it, with the devices.
        troubles: String,
    },
    /// The system refused something about a file that is no device.
    #[error("{}: can't {what}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The volume file is not what it should be.
    #[error("{}: {why}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        why: String,
    },
    /// Somebody else has the volume.
    #[error("{} is in use by {holder}; stop it first", path.display())]
    Busy {
        /// The volume file.
        path: PathBuf,
        /// Who.
        holder: String,
    },
    /// A copy of the volume, or another half of it, is served.
    #[error(
        "{}: {holder} serves volume {volume} already, from {theirs}; this is a copy of it, or \
         another part of it, and two at a time would become two volumes of one name: stop that \
         process first", path.display()
    )]
    Served {
        /// The volume file.
        path: PathBuf,
        /// The volume.
        volume: uuid::Uuid,
        /// Who.
        holder: String,
        /// The volume file that is served.
        theirs: String,
    },
    /// What an operator wants can't be done; nothing was changed.
    #[error("{}: {why}", path.display())]
    Refused {
        /// The volume file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A request to a volume, served or not, ended with an error of another kind than
    /// [`AdminErrorKind::Refused`].
    #[error("{}: {error}", path.display())]
    Admin {
        /// The volume file.
        path: PathBuf,
        /// Why, and of which kind.
        error: AdminError,
    },
    /// What was asked makes no sense, whatever the devices are.
    #[error("{0}")]
    Asked(String),
    /// A file is there already that `create` or `import` would have to replace.
    #[error("{} exists; remove it or choose another name", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A device can't be used as it is.
    #[error("{device}: {why}")]
    Device {
        /// The device.
        device: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// A device holds a format that this build does not know.
    #[error("{device}: {why}")]
    Format {
        /// The device.
        device: String,
        /// Which format, which is known, and what to do.
        why: String,
    },
    /// Making a volume failed after its devices were written to.
    #[error("{source}; formatting had begun, so {lost}")]
    Formatting {
        /// What failed.
        source: Box<Error>,
        /// The devices that are not as they were, with what they lost and why.
        lost: String,
    },
    /// The layer can't work on these devices.
    #[error("layer {layer}: {why}")]
    Layer {
        /// The layer.
        layer: String,
        /// Why.
        why: String,
    },
    /// The devices are no whole stack.
    #[error("{0}")]
    Stack(String),
    /// A backup of metadata that can't be used.
    #[error("{}: {why}", path.display())]
    Backup {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A recording that can't be replayed.
    #[error("{}: {why}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// What is wrong, and how many records are good.
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

/// The kind of an error. It is the same whether a request was carried out here or by the process
/// that serves the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdminErrorKind {
    /// The request makes no sense, whatever the volume is.
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
    /// Its kind.
    pub kind: AdminErrorKind,
    /// The cause and the remedy, without the name of the volume file.
    pub text: String,
}

impl AdminError {
    /// An error of this kind.
    pub(crate) fn new(kind: AdminErrorKind, text: impl Into<String>) -> Self {
        AdminError { kind, text: text.into() }
    }

    /// An error of a request that the volume or a device does not allow.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        AdminError::new(AdminErrorKind::Refused, text)
    }

    /// Returns the error of the same kind with the text that `words` makes of its text.
    pub(crate) fn reword(self, words: impl FnOnce(&str) -> String) -> Self {
        AdminError { text: words(&self.text), ..self }
    }

    /// Returns the error of the volume whose file is `path`, which its text may name already.
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

/// The same.
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

/// An [`Error::File`] from what the system said.
pub(crate) fn file(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::File { path: path.into(), what, source }
}

/// An [`Error::Device`].
pub(crate) fn device(device: &str, why: impl Into<String>) -> Error {
    Error::Device { device: device.into(), why: why.into() }
}
