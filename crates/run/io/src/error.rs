//! What can go wrong before a driver runs, in words that name the device and what to do.

use std::io;

/// See the module text.
#[derive(Debug, thiserror::Error)]
pub enum IoError {
    /// The system refused something.
    #[error("{name}: can't {what}: {source}")]
    System {
        /// The device.
        name: String,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The process was asked to end meanwhile.
    #[error("{name}: interrupted by a signal")]
    Interrupted {
        /// The device or file that was worked on.
        name: String,
    },
    /// Somebody else has the device.
    #[error("{name} is in use by {holder}; stop it first")]
    Busy {
        /// The device.
        name: String,
        /// Who has it, as far as can be known.
        holder: String,
    },
    /// The path is neither a file nor a block device.
    #[error("{name} is neither a regular file nor a block device")]
    Kind {
        /// The device.
        name: String,
    },
    /// A name that means no device, as `mem:lots`.
    #[error("{name}: {why}")]
    Name {
        /// The device.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A part that the device does not have.
    #[error("{name}: {why}")]
    Part {
        /// The device, with the part.
        name: String,
        /// What the device has instead.
        why: String,
    },
    /// Nothing fits on the device.
    #[error("{name} has {bytes} bytes; HostFTL needs at least {least}")]
    Small {
        /// The device.
        name: String,
        /// Its size.
        bytes: u64,
        /// The smallest that would do.
        least: u64,
    },
    /// The engine that was asked for does not exist.
    #[error("HOSTFTL_ENGINE={0} is unknown; use uring or pread")]
    Engine(String),
    /// io_uring was asked for, and the kernel has none for us.
    #[error("io_uring is refused ({0}); unset HOSTFTL_ENGINE to use what there is")]
    Refused(#[source] io::Error),
    /// The driver's own means (threads, eventfd, memory) are not there.
    #[error("can't start the I/O engine: {0}")]
    Start(#[source] io::Error),
    /// The layer says that the volume can't be opened.
    #[error("the volume can't be recovered: {0}")]
    Unrecoverable(&'static str),
    /// Recovery would write more than fits into the memory of a look.
    #[error(
        "recovery would write more to a device than the {most} MiB that are kept in memory when \
         nothing may be written: start the volume so that it may write"
    )]
    Look {
        /// What is kept in memory for each device, in MiB.
        most: usize,
    },
    /// Commands that a device never ended, though the layer is closed.
    #[error(
        "these devices never ended some commands: {devices}; they stay in use until this process \
         ends, so look at the devices, end it, and start again"
    )]
    Unanswered {
        /// Their names, each with a count of commands.
        devices: String,
    },
    /// A device was to come in the place of one that has commands yet.
    #[error(
        "{name} can't take the place of {old} yet, which has {under_way} commands that never \
         ended: try again, or stop the volume first"
    )]
    Unended {
        /// The device that comes.
        name: String,
        /// The one that goes.
        old: String,
        /// Its commands.
        under_way: usize,
    },
    /// The layer was closed for other devices to come, and could not be opened with them.
    #[error("the volume can't go on with other devices: {0}")]
    Changed(String),
    /// The layer waits for nothing and does not go on: a bug.
    #[error("the layer stalled while {0}: please report this")]
    Stalled(&'static str),
}
