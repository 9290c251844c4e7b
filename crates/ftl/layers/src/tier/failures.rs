//! Which of the two devices failed, and what the host is told because of that.
//!
//! Invariants
//! - What failed does not recover: a device that is gone stays gone, and once writing is over, it
//!   stays over.

use hostftl_core::{DeviceError, HostError};

#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Which devices are gone: the fast one, the slow one.
    gone: [bool; 2],
    /// Why nothing is written any more.
    error: Option<HostError>,
}

impl Failures {
    /// A device failed. Whether that is news: the first failure of all, or a device that is gone
    /// and was not before.
    pub(super) fn add(&mut self, device: u8, error: DeviceError) -> bool {
        let is_gone = error == DeviceError::Gone;
        let gone = &mut self.gone[usize::from(device)];
        let news = is_gone && !core::mem::replace(gone, true) || self.error.is_none();
        let first = *self.error.get_or_insert(host_error(error));
        self.error = Some(if is_gone { HostError::Io } else { first });
        news
    }

    /// What all but reads is answered with; `None` when everything works.
    #[inline]
    pub(super) fn error(&self) -> Option<HostError> {
        self.error
    }

    /// Which devices are gone: the fast one, the slow one.
    #[inline]
    pub(super) fn gone(&self) -> [bool; 2] {
        self.gone
    }
}

/// What a host is told of a device's error.
pub(super) fn host_error(error: DeviceError) -> HostError {
    match error {
        DeviceError::NoSpace => HostError::NoSpace,
        DeviceError::Media | DeviceError::Gone | DeviceError::Unsupported => HostError::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_counts_until_a_device_is_gone() {
        let mut failures = Failures::default();
        assert_eq!((failures.error(), failures.gone()), (None, [false; 2]));
        assert!(failures.add(1, DeviceError::NoSpace));
        assert!(!failures.add(0, DeviceError::Media), "writing was over already");
        assert_eq!(failures.error(), Some(HostError::NoSpace));
        assert_eq!(failures.gone(), [false; 2], "both devices can still be read");
        assert!(failures.add(0, DeviceError::Gone) && !failures.add(0, DeviceError::Gone));
        assert_eq!((failures.error(), failures.gone()), (Some(HostError::Io), [true, false]));
        assert!(failures.add(1, DeviceError::Gone), "the other device is news of its own");
    }
}
