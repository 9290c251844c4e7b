//! What can go wrong with ublk, in words that say what to do.

use std::io;
use std::time::Duration;

/// See the module text.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// There is no control node.
    #[error(
        "{0} is missing: load the kernel's module (modprobe ublk_drv), which Linux 6.5 or later \
         has when it was built with CONFIG_BLK_DEV_UBLK"
    )]
    NoModule(String),
    /// The process may not control block devices.
    #[error("{0}: no right to make block devices: start as root, or with CAP_SYS_ADMIN")]
    NoRight(String),
    /// The kernel has ublk without what is needed.
    #[error("this kernel's ublk has no {0}: Linux 6.5 or later is needed")]
    Lacks(&'static str),
    /// The kernel is known to fail.
    #[error("Linux {release}: {why}; take another kernel, or say --force")]
    Known {
        /// What `uname -r` says.
        release: String,
        /// What is known.
        why: &'static str,
    },
    /// The kernel refused something.
    #[error("{name}: can't {what}: {source}")]
    System {
        /// The device.
        name: String,
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A control command has no answer.
    #[error(
        "{name}: the kernel did not {what} within {} s, and may never; see its log (dmesg). What \
         hangs there ends with a restart of the machine", limit.as_secs()
    )]
    Stuck {
        /// The device.
        name: String,
        /// What was tried.
        what: &'static str,
        /// How long it was waited for.
        limit: Duration,
    },
}

impl UblkError {
    /// The kernel's number of the error, when it gave one.
    pub fn number(&self) -> Option<i32> {
        match self {
            UblkError::System { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
