//! Known damage, and devices that fail repeatedly.
//!
//! A *fault* is a read that fails, or data that does not match its checksum. The device counts as
//! missing until the repair is durable: once no flawed segment is left, and a root is durable that
//! was begun after that.
//!
//! A device with several faults is *failing*: the rest of its data is in doubt. It counts as
//! missing until a scrub has verified all data or another device is in its place. So does a device
//! that had damage before a restart, because the place of that damage is unknown. With more faults
//! within [`WINDOW`] it is given up like a device that cannot be written, so that a spare takes its
//! place or the data is rebuilt on the other devices.
//!
//! Invariant: a failing device is given up only while all data can be rebuilt without it.

use alloc::vec::Vec;

use hostftl_core::{DeviceSet, Event, Nanos, Refusal};

use super::Devices;
use crate::kit::Life;
use crate::log::ops::Cx;
use crate::log::segments::Segments;
use crate::planted::{Bug, planted};

/// The count of faults restarts after this time.
const WINDOW: Nanos = 600_000_000_000;
/// With this many faults a device is failing.
const FAILING: u32 = 5;
/// Output slots without which no event is sent.
const ROOM: usize = 20;
/// With more damaged segments at the start, their device is failing.
const AT_START: usize = 64;

/// The faults of one device.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    count: u32,
    since: Nanos,
    /// Where the last one was: a read that is repeated counts once.
    place: Option<u64>,
}

/// Where damage is.
#[derive(Clone, Copy, Debug, Default)]
struct Damage {
    devices: DeviceSet,
    /// Whether there is damage on an unknown device: data and parity are inconsistent.
    is_somewhere: bool,
}

impl Damage {
    fn is_none(self) -> bool {
        self.devices.is_empty() && !self.is_somewhere
    }
}

/// Known damage and failing devices.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// After this many faults a device is given up; 0 for never.
    limit: u32,
    faults: [Faults; 16],
    /// Damage that may not be moved yet.
    found: Damage,
    /// Damage that was moved, and the number of roots begun by then.
    moved: Option<(Damage, u64)>,
    /// Number of flaws that could not be moved, as counted by [`Segments::unrepaired`].
    unrepaired: u64,
    failing: DeviceSet,
    /// Devices that had damage before a restart.
    doubted: DeviceSet,
    /// Failing devices for which an event was sent.
    reported: DeviceSet,
    /// Failing devices that are to be given up.
    due: DeviceSet,
    /// Segments with damage that was found before their valid data was known.
    at_start: Vec<u32>,
}

impl Health {
    /// Sets the number of faults after which a device is given up; 0 for never.
    pub(crate) fn set_limit(&mut self, limit: u16) {
        self.limit = limit.into();
        self.due = DeviceSet::EMPTY;
    }

    /// Returns the number of faults after which a device is given up; 0 for never.
    pub(crate) fn limit(&self) -> u16 {
        self.limit as u16
    }

    /// Returns the devices that failed repeatedly.
    pub(crate) fn failing(&self) -> DeviceSet {
        self.failing
    }

    /// Returns the devices whose data is, or may be, damaged.
    pub(crate) fn damaged(&self) -> DeviceSet {
        self.failing | self.doubted | self.unrepaired().devices
    }

    /// Returns whether some damage is not repaired durably yet.
    pub(crate) fn is_unrepaired(&self) -> bool {
        !self.unrepaired().is_none()
    }

    fn unrepaired(&self) -> Damage {
        let moved = self.moved.map_or(Damage::default(), |(damage, _)| damage);
        Damage {
            devices: self.found.devices | moved.devices,
            is_somewhere: self.found.is_somewhere || moved.is_somewhere,
        }
    }

    /// Records that a device had damage before a restart, or had failed repeatedly.
    pub(crate) fn doubt(&mut self, device: u8, is_failing: bool) {
        self.doubted.insert(device);
        self.failing |= DeviceSet::single_if(is_failing, device);
        // The event was sent in the previous run.
        self.reported |= self.failing;
    }

    /// Records that a stripe has damage on an unknown device.
    pub(crate) fn note_somewhere(&mut self) {
        self.found.is_somewhere = true;
    }

    /// Returns whether no repair is pending and no device is to be given up or reported.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.is_unrepaired() && (self.due | (self.failing - self.reported)).is_empty()
    }

    /// Records a fault.
    fn note(&mut self, device: u8, place: u64, now: Nanos) {
        self.found.devices.insert(device);
        let faults = &mut self.faults[usize::from(device)];
        if faults.place == Some(place) {
            return;
        }
        if now.saturating_sub(faults.since) > WINDOW {
            *faults = Faults::default();
        }
        if faults.count == 0 {
            faults.since = now;
        }
        (faults.count, faults.place) = (faults.count + 1, Some(place));
        let count = faults.count;
        let is_due = self.limit > 0 && count >= self.limit;
        self.due |= DeviceSet::single_if(is_due, device);
        self.failing |= DeviceSet::single_if(count >= FAILING || is_due, device);
    }

    /// Records damage of a segment on a device before the valid data of the segment is known.
    pub(crate) fn flaw_later(&mut self, device: u8, segment: u32) {
        // The list is bounded; beyond that a scrub has to find the rest.
        if self.at_start.len() < AT_START {
            self.at_start.push(segment)
        } else {
            self.failing.insert(device)
        }
    }

    /// Records which repairs are durable. Returns whether some still need a root.
    fn observe(&mut self, segments: &mut Segments) -> bool {
        // The valid data of segments is known now.
        for segment in self.at_start.drain(..) {
            segments.flaw(segment);
        }
        if segments.unrepaired() > self.unrepaired {
            // The damage stays where it is.
            self.failing |= self.found.devices;
            self.unrepaired = segments.unrepaired();
        }
        let reuse = segments.reuse();
        // A repair is durable with a root that was begun after the damage was moved.
        self.moved = self.moved.filter(|(_, roots)| !reuse.is_behind_root(*roots));
        // No flawed segment is left, so the next root makes the repairs durable.
        if segments.flawed() == 0 && self.moved.is_none() && !self.found.is_none() {
            self.moved = Some((core::mem::take(&mut self.found), reuse.roots()));
        }
        self.moved.is_some()
    }

    /// Forgets the faults of a device because an operator acknowledged them. Damage from before a
    /// restart remains, because only a scrub can find it.
    pub(crate) fn acknowledge(&mut self, device: u8) {
        self.faults[usize::from(device)] = Faults::default();
        self.failing.remove(device);
        self.reported &= self.failing;
        self.due.remove(device);
    }

    /// Forgets all faults and damage of a device, which was verified or is another one.
    pub(crate) fn clear(&mut self, device: u8) {
        self.acknowledge(device);
        self.doubted.remove(device);
    }

    /// A scrub has verified all data, and its repairs are durable.
    pub(crate) fn verified(&mut self) {
        (0..16).for_each(|device| self.clear(device));
    }

    /// Marks devices as lost. One that returns is still failing, but its count of faults restarts.
    pub(super) fn lose(&mut self, devices: DeviceSet) {
        for device in devices {
            self.faults[usize::from(device)] = Faults::default();
        }
        self.found.devices -= devices;
        self.due -= devices;
    }
}

impl Devices {
    /// Returns the known damage.
    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    /// Returns the known damage, for changes.
    pub(crate) fn health_mut(&mut self) -> &mut Health {
        &mut self.health
    }

    /// Sets the number of faults after which a device is given up; 0 for never.
    pub(crate) fn with_fault_limit(mut self, limit: u16) -> Self {
        self.health.set_limit(limit);
        self
    }

    /// Records that data at sector `lba` of a device cannot be read, or is wrong.
    pub(crate) fn note_fault(&mut self, device: u8, lba: u64, cx: &mut Cx) {
        if self.is_inactive(device) {
            return;
        }
        let place = lba / u64::from(self.layout.chunk);
        self.health.note(device, place, cx.now());
        cx.invalidate_fast_path();
        cx.wake();
    }

    /// Returns the devices that count as missing because of known damage, and the number of further
    /// ones that are unknown.
    pub(super) fn damaged(&self) -> (DeviceSet, u32) {
        if planted(Bug::FailedReadsIgnored) {
            return (DeviceSet::EMPTY, 0);
        }
        (self.health.damaged(), self.health.unrepaired().is_somewhere.into())
    }

    /// Returns the refusal to give up the devices in `set` because others have known damage.
    pub(crate) fn damage_of_others(&self, set: DeviceSet) -> Refusal {
        Refusal::Damaged(self.damaged().0 - (set | self.inactive()))
    }

    /// Records which repairs are durable, and gives up a device with too many faults if all data
    /// can be rebuilt without it. Returns whether some repairs still need a root.
    pub(crate) fn observe_health(&mut self, segments: &mut Segments, cx: &mut Cx) -> bool {
        let waits = self.health.observe(segments);
        if cx.outputs_left() < ROOM {
            cx.wake();
            return waits;
        }
        for device in self.health.failing - self.health.reported {
            let faults = self.health.faults[usize::from(device)].count;
            cx.report(Event::Failing { device, faults, is_lost: false });
        }
        self.health.reported = self.health.failing;
        let due = (self.health.due & self.membership.all()) - self.inactive();
        let spared = |device: &u8| {
            let it = DeviceSet::single(*device);
            // A failing device still holds readable data, unlike a failed one, so it stays while it
            // is needed.
            self.may_lose_beside(it) > 0 && self.can_do_without(it)
        };
        if cx.life() == Life::Running
            && let Some(device) = due.iter().find(spared)
        {
            let faults = self.health.faults[usize::from(device)].count;
            self.lose(DeviceSet::single(device));
            cx.report(Event::Failing { device, faults, is_lost: true });
            cx.invalidate_fast_path();
            cx.wake();
        }
        waits
    }
}
