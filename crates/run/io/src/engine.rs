//! Which engine does the transfers.

use std::env;

use crate::error::IoError;

/// The engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring, or threads where the kernel refuses it.
    Best,
    /// io_uring.
    Uring,
    /// `preadv` and `pwritev` in worker threads.
    Pread,
}

impl EngineKind {
    /// What the environment variable `HOSTFTL_ENGINE` asks for, `uring` or `pread`; without it the
    /// better one that the kernel allows.
    ///
    /// # Errors
    /// When the variable names no engine.
    pub fn choose() -> Result<Self, IoError> {
        match env::var("HOSTFTL_ENGINE").as_deref() {
            Ok("uring") => Ok(EngineKind::Uring),
            Ok("pread") => Ok(EngineKind::Pread),
            Ok(other) if !other.is_empty() => Err(IoError::Engine(other.into())),
            _ => Ok(EngineKind::Best),
        }
    }
}
