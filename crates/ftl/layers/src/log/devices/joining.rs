//! Devices that are joining, as replacements, additions or returned members, until a durable root
//! lists their missing chunks.
//!
//! Invariant: a root admits only devices whose missing chunks its images list. A device that
//! arrived after these images were begun must wait for the next root.

use hostftl_core::DeviceSet;

use crate::planted::{Bug, planted};

/// State of a joining device.
#[derive(Clone, Copy, Debug, Default)]
struct JoiningDevice {
    /// Whether it receives roots.
    gets_roots: bool,
    /// Whether its missing chunks are listed in the images in progress, or in the last ones.
    is_listed: bool,
    /// Whether the root did not know it: it was added and replaces no other device.
    is_entering: bool,
    /// Number of the last stripe that it is known to have, if it is a returned device; otherwise 0.
    has: u64,
}

/// The joining devices, by place.
#[derive(Debug, Default)]
pub(super) struct JoiningDevices([JoiningDevice; 16]);

impl JoiningDevices {
    fn set(&self, is: impl Fn(&JoiningDevice) -> bool) -> DeviceSet {
        let all = (0..).zip(&self.0);
        all.filter(|(_, it)| is(it)).map(|(device, _)| device).collect()
    }

    /// Returns whether a device is joining and receives roots.
    pub(super) fn gets_roots(&self, device: u8) -> bool {
        self.0[usize::from(device)].gets_roots
    }

    /// Records that a returned device has all stripes up to this number.
    pub(super) fn has(&mut self, device: u8, seq: u64) {
        self.0[usize::from(device)].has = seq;
    }

    /// Returns the number of the last stripe that a device is known to have; `None` if it has none.
    pub(super) fn last_stripe(&self, device: u8) -> Option<u64> {
        Some(self.0[usize::from(device)].has).filter(|has| *has > 0)
    }

    /// Adds a device that has all stripes up to this number.
    pub(super) fn come(&mut self, device: u8, has: u64) {
        let is_entering = self.0[usize::from(device)].is_entering;
        self.0[usize::from(device)] =
            JoiningDevice { is_entering, has, ..JoiningDevice::default() };
    }

    /// Returns the devices that receive roots.
    pub(super) fn joining(&self) -> DeviceSet {
        self.set(|it| it.gets_roots)
    }

    /// Returns the devices that no root knows.
    pub(super) fn entering(&self) -> DeviceSet {
        self.set(|it| it.is_entering)
    }

    /// Records which joining devices are unknown to the root that recovery found.
    pub(super) fn found(&mut self, entering: DeviceSet) {
        for (device, it) in (0..).zip(&mut self.0) {
            it.is_entering = entering.contains(device);
        }
    }

    /// Lets the devices in `come` receive roots. Returns those that did not before.
    pub(super) fn join(&mut self, come: DeviceSet) -> DeviceSet {
        let new = come - self.joining();
        new.iter().for_each(|device| self.0[usize::from(device)].gets_roots = true);
        new
    }

    /// Begins the images of a root that list all devices that receive roots now or, without
    /// `tells`, none.
    pub(super) fn list(&mut self, tells: bool) {
        self.0.iter_mut().for_each(|it| it.is_listed = tells && it.gets_roots);
    }

    /// Returns the devices that the next root admits.
    pub(super) fn listed(&self) -> DeviceSet {
        self.set(|it| it.is_listed)
    }

    /// Returns whether a device receives roots but is listed neither in the root in progress nor in
    /// the last one, because it arrived after their images were begun.
    pub(super) fn is_unlisted(&self) -> bool {
        self.0.iter().any(|it| it.gets_roots && !it.is_listed)
    }

    /// Ends the joining of these devices: they are members now, or failed again.
    pub(super) fn end(&mut self, set: DeviceSet) {
        for device in set {
            let it = &mut self.0[usize::from(device)];
            (it.gets_roots, it.is_listed) = (false, false);
        }
    }

    /// Applies a durable root that records the devices in `lost`. Returns those that it admitted.
    pub(super) fn joined(&mut self, lost: DeviceSet) -> DeviceSet {
        let joined = if planted(Bug::JoinedEarly) { self.joining() } else { self.listed() - lost };
        self.end(joined);
        joined
    }

    /// Marks devices as known to roots. Returns those that were not before.
    pub(super) fn enter(&mut self, devices: DeviceSet) -> DeviceSet {
        let new = self.entering() & devices;
        new.iter().for_each(|device| self.0[usize::from(device)].is_entering = false);
        new
    }
}
