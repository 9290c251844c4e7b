//! Which engine does the transfers.

use std::env;

use crate::error::IoError;

/// The engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring.
    Uring,
    /// `preadv` and `pwritev` in worker threads.
    Pread,
}

impl EngineKind {
    /// What the environment variable `HOSTFTL_ENGINE` asks for, `uring` or `pread`; without it the
    /// better one that the kernel allows, and a sentence when that is not io_uring.
    ///
    /// # Errors
    /// When the variable names no engine.
    pub fn choose() -> Result<(Self, Option<String>), IoError> {
        match env::var("HOSTFTL_ENGINE").as_deref() {
            Ok("uring") => Ok((EngineKind::Uring, None)),
            Ok("pread") => Ok((EngineKind::Pread, None)),
            Ok(other) if !other.is_empty() => Err(IoError::Engine(other.into())),
            _ => Ok(match io_uring::IoUring::new(2) {
                Ok(_) => (EngineKind::Uring, None),
                Err(error) => {
                    let note = format!("io_uring is refused ({error}): using threads instead");
                    (EngineKind::Pread, Some(note))
                }
            }),
        }
    }
}
