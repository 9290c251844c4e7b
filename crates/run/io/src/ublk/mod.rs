//! ublk: block devices of the kernel whose requests arrive in this process through io_uring, from
//! Linux 6.5 on. The names and numbers are those of linux/ublk_cmd.h.
//!
//! Payload is copied by reads and writes of the device's character node (`UBLK_F_USER_COPY`). A
//! request therefore needs a buffer of its own length only while it is in progress.

mod abi;
mod control;
mod error;
mod kernel;
mod queue;

pub use abi::{Attributes, DeviceInfo, Features, Op, Spec, State};
pub use control::{Control, devices};
pub use error::UblkError;
pub use kernel::{Kernel, Known};
pub use queue::{Queue, Request};
