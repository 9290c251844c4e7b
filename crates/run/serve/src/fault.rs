//! Reason why a request fails: an errno for the client and a message for its user.

use hostftl_core::HostError;
use hostftl_nbd_proto::Errno;

/// Failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) errno: Errno,
    pub(crate) why: &'static str,
}

impl Fault {
    pub(crate) const fn new(errno: Errno, why: &'static str) -> Self {
        Fault { errno, why }
    }
}

/// Failure of a write to a read-only export.
pub(crate) const READ_ONLY: Fault =
    Fault::new(Errno::Permission, "the volume is served with --read-only");

impl From<HostError> for Fault {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Io => Fault::new(Errno::Io, "a device failed; see `hostftl status`"),
            HostError::NoSpace => {
                Fault::new(Errno::NoSpace, "no space for new data; reads and trims still work")
            }
            HostError::Range => Fault::new(Errno::Invalid, "the range is outside the volume"),
            HostError::ReadOnly => READ_ONLY,
        }
    }
}
