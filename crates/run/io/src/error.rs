//! Errors of devices and of a driver. Messages name the device, the reason and the remedy.

use std::io;

/// Error of a device or of a driver.
#[derive(Debug, thiserror::Error)]
pub enum IoError {
    /// The system refused an operation.
    #[error("{name}: cannot {action}: {source}")]
    System {
        /// Name of the device.
        name: String,
        /// Operation that failed.
        action: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The process was asked to end in the meantime.
    #[error("{name}: interrupted by a signal")]
    Interrupted {
        /// Name of the device or file in use.
        name: String,
    },
    /// Another process uses the device.
    #[error("{name} is in use by {holder}; stop it first")]
    Busy {
        /// Name of the device.
        name: String,
        /// The process that uses it, if known.
        holder: String,
    },
    /// The path is neither a regular file nor a block device.
    #[error("{name} is neither a regular file nor a block device")]
    Kind {
        /// Name of the device.
        name: String,
    },
    /// The name does not denote a device, such as `mem:lots`.
    #[error("{name}: {why}")]
    Name {
        /// Name of the device.
        name: String,
        /// Reason.
        why: String,
    },
    /// The device does not have the requested part.
    #[error("{name}: {why}")]
    Part {
        /// Name of the device with the part.
        name: String,
        /// Reason, with the parts that the device has.
        why: String,
    },
    /// The device is too small.
    #[error("{name} has {bytes} bytes; HostFTL needs at least {least}")]
    Small {
        /// Name of the device.
        name: String,
        /// Size in bytes.
        bytes: u64,
        /// Minimum size in bytes.
        least: u64,
    },
    /// The requested engine does not exist.
    #[error("HOSTFTL_ENGINE={0} is unknown; use uring or pread")]
    Engine(String),
    /// io_uring was requested, but the kernel refuses it.
    #[error("cannot use io_uring ({0}); unset HOSTFTL_ENGINE to use another engine")]
    Refused(#[source] io::Error),
    /// The driver cannot get a resource of its own (thread, eventfd, memory).
    #[error("cannot start the I/O engine: {0}")]
    Start(#[source] io::Error),
    /// The layer cannot open the volume.
    #[error("cannot recover the volume: {0}")]
    Unrecoverable(&'static str),
    /// Recovery would write more than the memory limit of a read-only run.
    #[error(
        "recovery needs more than the {most} MiB of memory for a read-only start; start the \
         volume writable"
    )]
    OverlayFull {
        /// Memory limit for each device, in MiB.
        most: usize,
    },
    /// A device did not end some commands although the layer is closed.
    #[error(
        "some commands never completed: {devices}; the devices stay in use until this process \
         ends, so check them and restart"
    )]
    Unanswered {
        /// Names of the devices, each with the number of commands.
        devices: String,
    },
    /// A device was to be replaced, but still has commands in flight.
    #[error(
        "cannot replace {old} by {name}: {under_way} commands never completed; try again, or stop \
         the volume first"
    )]
    Unended {
        /// Name of the new device.
        name: String,
        /// Name of the old device.
        old: String,
        /// Commands of the old device.
        under_way: usize,
    },
    /// The layer was closed to exchange devices, and could not be opened with the new ones.
    #[error("cannot reopen the volume with the new devices: {0}")]
    Changed(String),
    /// The layer waits for nothing and makes no progress: a bug.
    #[error("the layer stalled while {0}; please report this")]
    Stalled(&'static str),
}
