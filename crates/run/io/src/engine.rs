//! Selection of the engine that executes transfers.

use std::env;

use crate::error::IoError;

/// Engines for transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring, or threads if the kernel refuses it.
    Best,
    /// io_uring.
    Uring,
    /// `preadv` and `pwritev` in worker threads.
    Pread,
}

impl EngineKind {
    /// Returns the engine that the environment variable `HOSTFTL_ENGINE` selects, `uring` or
    /// `pread`; the default is the better one that the kernel allows.
    ///
    /// # Errors
    /// When the variable does not name an engine.
    pub fn choose() -> Result<Self, IoError> {
        match env::var("HOSTFTL_ENGINE").as_deref() {
            Ok("uring") => Ok(EngineKind::Uring),
            Ok("pread") => Ok(EngineKind::Pread),
            Ok(other) if !other.is_empty() => Err(IoError::Engine(other.into())),
            _ => Ok(EngineKind::Best),
        }
    }
}
