//! Errors of ublk, with the remedy in their messages.

use std::io;
use std::time::Duration;

/// Error of a ublk operation.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The control node is missing.
    #[error(
        "{0} is missing: load the kernel's module (modprobe ublk_drv), which Linux 6.5 or later \
         has when it was built with CONFIG_BLK_DEV_UBLK"
    )]
    NoModule(String),
    /// The process has no right to control block devices.
    #[error("{0}: no right to make block devices: start as root, or with CAP_SYS_ADMIN")]
    NoRight(String),
    /// The kernel's ublk does not have a required feature.
    #[error("this kernel's ublk has no {0}: Linux 6.5 or later is needed")]
    Lacks(&'static str),
    /// ublk of this kernel is known to fail.
    #[error("Linux {release}: {why}; take another kernel, or say --force")]
    Known {
        /// Release as `uname -r` prints it.
        release: String,
        /// Known failure.
        why: &'static str,
    },
    /// The kernel refused an operation.
    #[error("{name}: can't {what}: {source}")]
    System {
        /// Name of the device.
        name: String,
        /// Operation that failed.
        what: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A control command did not end in time.
    #[error(
        "{name}: the kernel did not {what} within {} s, and may never; see its log (dmesg). What \
         hangs there ends with a restart of the machine", limit.as_secs()
    )]
    Stuck {
        /// Name of the device.
        name: String,
        /// Operation that was attempted.
        what: &'static str,
        /// Timeout of the operation.
        limit: Duration,
    },
}

impl UblkError {
    /// Returns the errno of the kernel, if there is one.
    pub fn number(&self) -> Option<i32> {
        match self {
            UblkError::System { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
