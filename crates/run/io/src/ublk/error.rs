//! Errors of ublk, with the remedy in their messages.

use std::io;
use std::time::Duration;

/// Error of a ublk operation.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The control node is missing.
    #[error(
        "{0} is missing; run `modprobe ublk_drv` (Linux 6.5 or later with CONFIG_BLK_DEV_UBLK)"
    )]
    NoModule(String),
    /// The process has no right to control block devices.
    #[error("{0}: permission denied; start as root, or with CAP_SYS_ADMIN")]
    NoRight(String),
    /// The kernel's ublk does not have a required feature.
    #[error("ublk of this kernel has no {0}; use Linux 6.5 or later")]
    Lacks(&'static str),
    /// ublk of this kernel is known to fail.
    #[error("Linux {release}: {why}; use another kernel, or --force")]
    Known {
        /// Release as `uname -r` prints it.
        release: String,
        /// Known failure.
        why: &'static str,
    },
    /// The kernel refused an operation.
    #[error("{name}: cannot {action}: {source}")]
    System {
        /// Name of the device.
        name: String,
        /// Operation that failed.
        action: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A control command did not end in time.
    #[error(
        "{name}: the kernel did not {action} within {} s; see dmesg, a restart of the machine \
         clears it", limit.as_secs()
    )]
    Stuck {
        /// Name of the device.
        name: String,
        /// Operation that was attempted.
        action: &'static str,
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
