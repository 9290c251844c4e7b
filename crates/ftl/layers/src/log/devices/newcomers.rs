//! What roots say of devices that came, in the place of lost ones or as more, until a durable one
//! says what they lack.
//!
//! Invariants
//! - A root lets those join of which its images tell what they lack: not one that came since these
//!   images were begun, in whatever place.

use hostftl_core::DeviceSet;

use crate::planted::{Bug, planted};

/// A device that came.
#[derive(Clone, Copy, Debug, Default)]
struct Newcomer {
    /// Whether it gets roots already.
    gets_roots: bool,
    /// Whether the images list its missing chunks that are taken now, or were last.
    is_listed: bool,
    /// Whether the root did not know of it: it did not come in the place of another.
    is_entering: bool,
    /// The number of the last row that it has for sure, if it was there before.
    has: u64,
}

/// See the module text.
#[derive(Debug, Default)]
pub(super) struct Newcomers([Newcomer; 16]);

impl Newcomers {
    fn set(&self, is: impl Fn(&Newcomer) -> bool) -> DeviceSet {
        let all = (0..).zip(&self.0);
        all.filter(|(_, it)| is(it)).map(|(device, _)| device).collect()
    }

    /// Whether a device came that gets roots.
    pub(super) fn gets_roots(&self, device: u8) -> bool {
        self.0[usize::from(device)].gets_roots
    }

    /// One that is back has all rows up to this one.
    pub(super) fn has(&mut self, device: u8, seq: u64) {
        self.0[usize::from(device)].has = seq;
    }

    /// The last row that one has for sure; none when that is nothing.
    pub(super) fn last_row(&self, device: u8) -> Option<u64> {
        Some(self.0[usize::from(device)].has).filter(|has| *has > 0)
    }

    /// A device comes that has all rows up to this one.
    pub(super) fn come(&mut self, device: u8, has: u64) {
        let is_entering = self.0[usize::from(device)].is_entering;
        self.0[usize::from(device)] = Newcomer { is_entering, has, ..Newcomer::default() };
    }

    /// Those that get roots.
    pub(super) fn joining(&self) -> DeviceSet {
        self.set(|it| it.gets_roots)
    }

    /// Those of which no root knows.
    pub(super) fn entering(&self) -> DeviceSet {
        self.set(|it| it.is_entering)
    }

    /// Of the devices that `come`, the root that recovery found does not know these.
    pub(super) fn found(&mut self, entering: DeviceSet) {
        for (device, it) in (0..).zip(&mut self.0) {
            it.is_entering = entering.contains(device);
        }
    }

    /// All that `come` get roots from now on. Those that did not.
    pub(super) fn join(&mut self, come: DeviceSet) -> DeviceSet {
        let new = come - self.joining();
        new.iter().for_each(|device| self.0[usize::from(device)].gets_roots = true);
        new
    }

    /// The next root tells of all that get roots now, or of none.
    pub(super) fn list(&mut self, tells: bool) {
        self.0.iter_mut().for_each(|it| it.is_listed = tells && it.gets_roots);
    }

    /// Those that the next root lets join.
    pub(super) fn listed(&self) -> DeviceSet {
        self.set(|it| it.is_listed)
    }

    /// Whether one gets roots of which neither the root in progress nor the last one lists the
    /// missing chunks: it came after their images were begun.
    pub(super) fn is_unlisted(&self) -> bool {
        self.0.iter().any(|it| it.gets_roots && !it.is_listed)
    }

    /// None of these gets roots any more: they belong, or failed again.
    pub(super) fn end(&mut self, set: DeviceSet) {
        for device in set {
            let it = &mut self.0[usize::from(device)];
            (it.gets_roots, it.is_listed) = (false, false);
        }
    }

    /// A durable root says which are still lost; those that have joined.
    pub(super) fn joined(&mut self, lost: DeviceSet) -> DeviceSet {
        let joined = if planted(Bug::JoinedEarly) { self.joining() } else { self.listed() - lost };
        self.end(joined);
        joined
    }

    /// These are known from now on; those that were not.
    pub(super) fn enter(&mut self, devices: DeviceSet) -> DeviceSet {
        let new = self.entering() & devices;
        new.iter().for_each(|device| self.0[usize::from(device)].is_entering = false);
        new
    }
}
