//! Known damage, and devices that fail repeatedly.
//!
//! A *fault* is a read that fails, or data that does not match its checksum. The device counts as
//! missing until the repair is durable: once no flawed segment is left, and a root is durable that
//! was begun after that.
//!
//! A device with several faults is *failing*: the rest of its data is in doubt. It counts as
//! missing until a scrub has verified all data or another device is in its place. So does a device
//! that had damage before a restart, which does not tell where. With more faults
//! within [`WINDOW`] it is given up like a device that cannot be written, so that a spare takes its
//! place or the data is rebuilt on the other devices.
//!
//! Invariant: a failing device is given up only while all data can be rebuilt without it.

use alloc::vec::Vec;

use hostftl_core::{Event, Nanos, Refusal};

use super::Devices;
use crate::kit::Life;
use crate::log::ops::Cx;
use crate::log::segments::Segments;
use crate::log::stripe::bits;
use crate::planted::{Bug, planted};

/// The place of a bit for damage of which the device is not known: data and parity do not fit.
const SOMEWHERE: u32 = 1 << 16;
/// The count of faults restarts after this time.
const WINDOW: Nanos = 600_000_000_000;
/// With this many faults a device is failing.
const FAILING: u32 = 5;
/// With less room for outputs, no event is sent.
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

/// See the module text. Devices are sets of bits.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// After this many faults a device is given up; 0 for never.
    limit: u32,
    faults: [Faults; 16],
    /// Devices with damage that may not be moved yet, and [`SOMEWHERE`].
    found: u32,
    /// Devices whose damaged data was moved, and the roots that were begun by then.
    moved: Option<(u32, u64)>,
    /// Flaws that could not be moved, as [`Segments::unrepaired`] counts them.
    unrepaired: u64,
    failing: u16,
    /// Devices that had damage before a restart.
    doubted: u16,
    /// Failing devices for which an event was sent.
    reported: u16,
    /// Failing devices that are to be given up.
    due: u16,
    /// Segments with damage that was found before their valid data was known.
    at_start: Vec<u32>,
}

impl Health {
    /// Sets the number of faults after which a device is given up; 0 for never.
    pub(crate) fn set_limit(&mut self, limit: u16) {
        self.limit = limit.into();
        self.due = 0;
    }

    /// The same.
    pub(crate) fn limit(&self) -> u16 {
        self.limit as u16
    }

    /// Devices that failed repeatedly.
    pub(crate) fn failing(&self) -> u16 {
        self.failing
    }

    /// Devices with data that is, or may be, damaged.
    pub(crate) fn damaged(&self) -> u16 {
        self.failing | self.doubted | self.unrepaired_sets() as u16
    }

    /// Whether damage is not repaired durably yet.
    pub(crate) fn is_unrepaired(&self) -> bool {
        self.unrepaired_sets() != 0
    }

    fn unrepaired_sets(&self) -> u32 {
        self.found | self.moved.map_or(0, |(devices, _)| devices)
    }

    /// A device had damage before a restart, or had failed repeatedly.
    pub(crate) fn doubt(&mut self, device: u8, is_failing: bool) {
        self.doubted |= 1 << device;
        self.failing |= u16::from(is_failing) << device;
        self.reported |= self.failing;
    }

    /// A stripe has damage, and it is not known on which device.
    pub(crate) fn note_somewhere(&mut self) {
        self.found |= SOMEWHERE;
    }

    /// Whether nothing is to be repaired, and no device to be given up.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.is_unrepaired() && self.due | self.failing & !self.reported == 0
    }

    /// Records a fault.
    fn note(&mut self, device: u8, place: u64, now: Nanos) {
        self.found |= 1 << device;
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
        self.due |= u16::from(is_due) << device;
        self.failing |= u16::from(count >= FAILING || is_due) << device;
    }

    /// A segment has damage on a device, and its valid data is not known yet.
    pub(crate) fn flaw_later(&mut self, device: u8, segment: u32) {
        if self.at_start.len() < AT_START {
            self.at_start.push(segment)
        } else {
            self.failing |= 1 << device
        }
    }

    /// Records which repairs are durable. Returns whether a root is all that is missing for some.
    fn observe(&mut self, segments: &mut Segments) -> bool {
        for segment in self.at_start.drain(..) {
            segments.flaw(segment);
        }
        if segments.unrepaired() > self.unrepaired {
            // The damage stays where it is.
            self.failing |= self.found as u16;
            self.unrepaired = segments.unrepaired();
        }
        let reuse = segments.reuse();
        self.moved = self.moved.filter(|(_, roots)| !reuse.is_behind_root(*roots));
        if segments.flawed() == 0 && self.moved.is_none() && self.found != 0 {
            self.moved = Some((core::mem::take(&mut self.found), reuse.roots()));
        }
        self.moved.is_some()
    }

    /// Forgets the faults of a device: an operator has acknowledged them, or it is another one.
    pub(crate) fn clear(&mut self, device: u8) {
        self.faults[usize::from(device)] = Faults::default();
        self.failing &= !(1 << device);
        self.doubted &= !(1 << device);
        self.reported &= self.failing;
        self.due &= !(1 << device);
    }

    /// A scrub has verified all data, and its repairs are durable.
    pub(crate) fn verified(&mut self) {
        (0..16).for_each(|device| self.clear(device));
    }

    /// These devices are lost. One that comes back is still failing, but its count of faults
    /// restarts.
    pub(super) fn lose(&mut self, devices: u16) {
        for device in bits(devices) {
            self.faults[device] = Faults::default();
        }
        (self.found, self.due) = (self.found & !u32::from(devices), self.due & !devices);
    }
}

impl Devices {
    /// Known damage on them.
    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    /// The same, to be changed.
    pub(crate) fn health_mut(&mut self) -> &mut Health {
        &mut self.health
    }

    /// One is given up after this many faults; 0 for never.
    pub(crate) fn with_fault_limit(mut self, limit: u16) -> Self {
        self.health.set_limit(limit);
        self
    }

    /// Records that data at sector `lba` of a device cannot be read, or is wrong.
    pub(crate) fn note_fault(&mut self, device: u8, lba: u64, cx: &mut Cx) {
        if self.has_lost(device) {
            return;
        }
        let place = lba / u64::from(self.layout.chunk);
        self.health.note(device, place, cx.now());
        cx.disturb();
        cx.wake();
    }

    /// Devices that are counted as missing because of known damage, and how many more that are not
    /// known.
    pub(super) fn damaged(&self) -> (u16, u32) {
        if planted(Bug::FailedReadsIgnored) {
            return (0, 0);
        }
        let somewhere = self.health.unrepaired_sets() & SOMEWHERE != 0;
        (self.health.damaged(), u32::from(somewhere))
    }

    /// Why the devices `set` may not go: the others have known damage.
    pub(crate) fn damage_of_others(&self, set: u16) -> Refusal {
        Refusal::Damaged(self.damaged().0 & !(set | self.lost()))
    }

    /// Records which repairs are durable, and gives up a device with too many faults if all data
    /// can be rebuilt without it. Returns whether a root is all that is missing for some repairs.
    pub(crate) fn observe_health(&mut self, segments: &mut Segments, cx: &mut Cx) -> bool {
        let waits = self.health.observe(segments);
        if cx.room() < ROOM {
            cx.wake();
            return waits;
        }
        for device in bits(self.health.failing & !self.health.reported) {
            let faults = self.health.faults[device].count;
            cx.tell(Event::Failing { device: device as u8, faults, is_lost: false });
        }
        self.health.reported = self.health.failing;
        let mut due = bits(self.health.due & self.membership.all() & !self.lost());
        let spared = |device: &usize| {
            let bit = 1 << device;
            self.may_lose_beside(bit) > 0 && self.can_do_without(bit)
        };
        if cx.life() == Life::Running
            && let Some(device) = due.find(spared)
        {
            let faults = self.health.faults[device].count;
            self.lose(1 << device);
            cx.tell(Event::Failing { device: device as u8, faults, is_lost: true });
            cx.disturb();
            cx.wake();
        }
        waits
    }
}
