//! Failures of the two devices, and the resulting errors for the host.
//!
//! Invariants
//! - Failures are permanent: a failed device stays failed, and writing never resumes.

use hostftl_core::{DeviceError, HostError};

/// The failed devices, and the error that ended writing.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Failed devices: the fast one, the slow one.
    failed: [bool; 2],
    /// Error that ended all writing.
    error: Option<HostError>,
}

impl Failures {
    /// Records the failure of a device. Returns whether it is to be reported: the first failure of
    /// all, or the first time that this device was removed.
    pub(super) fn add(&mut self, device: u8, error: DeviceError) -> bool {
        let is_removed = error == DeviceError::Removed;
        let failed = &mut self.failed[usize::from(device)];
        let news = is_removed && !core::mem::replace(failed, true) || self.error.is_none();
        let first = *self.error.get_or_insert(host_error(error));
        self.error = Some(if is_removed { HostError::Io } else { first });
        news
    }

    /// Returns the error for all requests but reads, or `None` while both devices work.
    #[inline]
    pub(super) fn error(&self) -> Option<HostError> {
        self.error
    }

    /// Returns the failed devices: the fast one, the slow one.
    #[inline]
    pub(super) fn failed(&self) -> [bool; 2] {
        self.failed
    }
}

/// Returns the host's error for a device's error.
pub(super) fn host_error(error: DeviceError) -> HostError {
    match error {
        DeviceError::NoSpace => HostError::NoSpace,
        DeviceError::Media | DeviceError::Removed | DeviceError::Unsupported => HostError::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_counts_until_a_device_is_lost() {
        let mut failures = Failures::default();
        assert_eq!((failures.error(), failures.failed()), (None, [false; 2]));
        assert!(failures.add(1, DeviceError::NoSpace));
        assert!(!failures.add(0, DeviceError::Media), "writing was over already");
        assert_eq!(failures.error(), Some(HostError::NoSpace));
        assert_eq!(failures.failed(), [false; 2], "both devices can still be read");
        assert!(failures.add(0, DeviceError::Removed) && !failures.add(0, DeviceError::Removed));
        assert_eq!((failures.error(), failures.failed()), (Some(HostError::Io), [true, false]));
        assert!(failures.add(1, DeviceError::Removed), "the other device is news of its own");
    }
}
