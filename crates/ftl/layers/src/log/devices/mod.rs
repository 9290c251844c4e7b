//! The devices of the volume: their states, and the submission of commands to them.
//!
//! A device that cannot be written is lost: it receives no more commands, and its contents are
//! stale. A command for a lost device, or for a zone that cannot take it, fails without being sent.
//!
//! Invariants
//! - No more devices are lost than parity makes up for.
//! - No flush is acknowledged until a durable root records the lost devices. Otherwise the stale
//!   contents of a returning device could be trusted.

mod changes;
mod choice;
pub(in crate::log) mod health;
mod joining;
pub(in crate::log) mod membership;
mod reclaim;
mod roots;

use alloc::collections::VecDeque;

use hostftl_core::{
    Command, DeviceError, DeviceInfo, DeviceSet, Event, MemberState, Members, SECTOR,
};
#[cfg(test)]
use hostftl_format::log::Root;

use crate::kit::Life;
use crate::log::chunk_placement::ChunkPlacement;
use crate::log::layout::Layout;
use crate::log::ops::{Cx, OPS, Op, fail};
use crate::log::segments::Segments;
use crate::log::zoned::write_pointers::Pointers;
use crate::planted::{Bug, planted};
use health::Health;
use joining::JoiningDevices;
use membership::Membership;
use reclaim::Reclaim;

/// Contents of the durable root about devices.
#[derive(Debug, Default)]
struct CommittedRoot {
    /// Devices that no segment uses, so the loss of one costs no redundancy. All devices, until
    /// recovery has found the root.
    out: DeviceSet,
    /// The same, for the root in progress.
    pending: DeviceSet,
    /// Devices that miss chunks according to the images of the root.
    lacking: DeviceSet,
    /// Devices that may hold stripes to be replayed.
    replayed: DeviceSet,
}

/// Commands that are not simply sent.
#[derive(Debug)]
struct Commands {
    /// Commands that fail without being sent.
    unsent: VecDeque<(Op, Command, DeviceError)>,
    /// Sectors read until the volume was ready.
    read_at_start: u64,
}

#[derive(Debug)]
pub(super) struct Devices {
    layout: Layout,
    /// The members of each segment.
    membership: Membership,
    /// State of the zones of zoned devices.
    zones: Pointers,
    /// State and role of each device.
    members: Members,
    /// Contents of the durable root.
    committed: CommittedRoot,
    /// Devices on which segments are to be opened.
    wanted: DeviceSet,
    /// Progress of joining devices.
    joining: JoiningDevices,
    /// Whether devices became members since the last choice of where segments are opened.
    widens: bool,
    /// Number of devices that may be lost.
    most: u32,
    commands: Commands,
    /// Segments being discarded or reset.
    reclaim: Reclaim,
    /// Known damage.
    health: Health,
}

impl Devices {
    /// Creates the state of devices with the given states and roles; `most` of them may be lost in
    /// total.
    pub(super) fn new(layout: Layout, members: Members, most: u32, devices: &[DeviceInfo]) -> Self {
        let zones = Pointers::new(&layout);
        let unsent = VecDeque::with_capacity(OPS.into());
        let reclaim = Reclaim::new(&layout, devices);
        let membership = Membership::new(&layout);
        let out = if layout.parity > 0 { DeviceSet::ALL } else { DeviceSet::EMPTY };
        Devices {
            layout,
            membership,
            zones,
            members,
            committed: CommittedRoot { out, ..CommittedRoot::default() },
            wanted: DeviceSet::EMPTY,
            joining: JoiningDevices::default(),
            widens: false,
            most,
            commands: Commands { unsent, read_at_start: 0 },
            reclaim,
            health: Health::default(),
        }
    }

    /// Returns the layout of the devices.
    #[inline]
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the members of segments.
    #[inline]
    pub(super) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Returns the members of segments, for changes.
    pub(super) fn membership_mut(&mut self) -> &mut Membership {
        &mut self.membership
    }

    /// Returns the placement of a segment's chunks.
    #[inline]
    pub(super) fn placement(&self, segment: u32) -> ChunkPlacement {
        self.membership.placement(segment)
    }

    /// Takes a free segment for a stream.
    pub(super) fn open_segment(&mut self, stream: u8, segments: &mut Segments) -> u32 {
        let segment = segments.open(stream);
        let members = self.membership.assign(segment, self.inactive()).members();
        let is_closed = !members.overlaps(self.committed.out);
        assert!(is_closed || planted(Bug::ProtectedEarly), "a root records the device as empty");
        segment
    }

    /// Returns the state of the zones.
    #[inline]
    pub(super) fn zones(&self) -> &Pointers {
        &self.zones
    }

    /// Returns the state of the zones, for changes.
    pub(super) fn zones_mut(&mut self) -> &mut Pointers {
        &mut self.zones
    }

    /// Returns the state and role of each device.
    #[inline]
    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    /// Returns the devices that are not used, for any reason.
    #[inline]
    pub(super) fn inactive(&self) -> DeviceSet {
        self.members.inactive()
    }

    /// Returns whether `device` is not used.
    #[inline]
    pub(super) fn is_inactive(&self, device: u8) -> bool {
        self.inactive().contains(device)
    }

    /// Returns the lost devices without a replacement, except as many as there are parity chunks.
    /// No more data can be on these.
    #[inline]
    pub(super) fn beyond_parity(&self) -> DeviceSet {
        let lost = (self.inactive() & self.membership.all()) - self.untrusted();
        match self.layout.parity {
            0 => DeviceSet::EMPTY,
            parity => lost.iter().skip(parity.into()).collect(),
        }
    }

    /// Returns whether all of `set` may be lost.
    pub(super) fn can_do_without(&self, set: DeviceSet) -> bool {
        let away = self.inactive() | set;
        // A device without data costs no redundancy, but one that lacks chunks does, even if it is
        // present.
        let needed = (away - self.committed.out) | self.membership.lacking();
        needed.len() <= self.most && away.len() < self.layout.devices.into()
    }

    /// Returns whether parity makes up for the failed zones of a segment in addition to its missing
    /// chunks. Until recovery has found these, the segment is assumed to miss every chunk that any
    /// device lacks.
    pub(super) fn can_write_to(&self, segment: u32) -> bool {
        let failed = self.zones.failed(segment);
        if self.membership.is_complete() {
            (failed | self.devices_with_missing(segment)).len() <= self.most
        } else {
            self.can_do_without(failed | self.inactive())
        }
    }

    /// Marks devices as lost.
    pub(super) fn lose(&mut self, set: DeviceSet) {
        assert!(self.can_do_without(set), "parity covers the lost devices");
        for device in set {
            match self.members.get(device).state {
                MemberState::Active => self.members.change(device, MemberState::Lost),
                // A device that does not receive roots yet counts as lost until it joins.
                state if state.is_coming() && self.joining.gets_roots(device) => {
                    self.members.change(device, MemberState::Lost);
                }
                _ => {}
            }
        }
        self.joining.end(set);
        self.health.lose(set);
        self.note_rebuilt();
    }

    /// Returns the devices that receive roots although they still count as lost.
    pub(super) fn joining(&self) -> DeviceSet {
        self.joining.joining()
    }

    /// Returns the devices that replace lost ones or returned, until a root records their missing
    /// chunks.
    #[inline]
    pub(super) fn untrusted(&self) -> DeviceSet {
        self.members.coming()
    }

    /// Returns whether a device receives roots.
    pub(super) fn takes_roots(&self, device: u8) -> bool {
        !self.is_inactive(device) || self.joining().contains(device)
    }

    /// Returns whether a durable root records the lost devices.
    pub(super) fn is_committed(&self) -> bool {
        self.members.are_recorded()
    }

    /// Records the devices that miss chunks according to the images of the durable root.
    pub(super) fn commit_lacking(&mut self, lacking: DeviceSet) {
        self.committed.lacking = lacking;
    }

    /// Returns whether these images list a device that has all its chunks by now.
    pub(super) fn is_lack_outdated(&self) -> bool {
        !self.committed.lacking.is_within(self.membership.lacking())
    }

    /// Returns whether the volume is fully redundant: no device is lost or leaving, no chunk is
    /// missing, and segments are opened on all devices.
    pub(super) fn is_as_made(&self) -> bool {
        let all = self.membership.all();
        let on_all = self.membership.current().members() == all;
        let is_changing = self.inactive().overlaps(all)
            || !self.members.leaving().is_empty()
            || !self.untrusted().is_empty();
        !is_changing && on_all && self.exposed() == 0 && self.committed.lacking.is_empty()
    }

    /// Returns whether a segment's chunks on a device are missing.
    pub(super) fn is_missing_on(&self, segment: u32, device: u8) -> bool {
        self.devices_with_missing(segment).contains(device)
    }

    /// Returns the devices on which chunks of a segment are missing.
    pub(super) fn devices_with_missing(&self, segment: u32) -> DeviceSet {
        self.membership.missing(segment, self.inactive())
    }

    /// Returns whether a chunk of a segment is missing.
    pub(super) fn is_missing_a_chunk(&self, segment: u32) -> bool {
        !self.devices_with_missing(segment).is_empty()
    }

    /// Returns the number of further devices that may be lost, whichever they are; 0 during
    /// recovery. A device with known damage counts as missing.
    pub(super) fn may_lose(&self) -> u32 {
        self.may_lose_beside(DeviceSet::EMPTY)
    }

    /// Returns the same number, without counting the damage of the devices in `set`.
    pub(super) fn may_lose_beside(&self, set: DeviceSet) -> u32 {
        if !self.membership.is_complete() {
            return 0;
        }
        // An unused device holds no data, unless segments are to be opened on it.
        let out = self.committed.out - self.wanted;
        let is_forgotten = planted(Bug::ExposedForgotten);
        let lacking = if is_forgotten { DeviceSet::EMPTY } else { self.lacking() };
        let (damaged, more) = self.damaged();
        let missing = ((self.inactive() | (damaged - set)) - out) | lacking;
        let count = missing.len() + more;
        self.most.saturating_sub(if planted(Bug::SecondLossUncounted) {
            count.min(1)
        } else {
            count
        })
    }

    /// Returns whether the devices in `set` could be lost if the others had no known damage.
    pub(super) fn is_needed_for_repairs(&self, set: DeviceSet) -> bool {
        let all = self.membership.all();
        self.may_lose_beside(set) == 0 && self.may_lose_beside(all | set) > 0
    }

    /// Returns the devices that miss chunks because they joined later, according to the current
    /// state or the durable images.
    pub(super) fn lacking(&self) -> DeviceSet {
        self.membership.lacking() | self.committed.lacking
    }

    /// Returns the number of missing chunks, summed over segments.
    pub(super) fn exposed(&self) -> u32 {
        self.membership.exposed(self.inactive())
    }

    /// Returns whether no command waits to fail.
    pub(super) fn is_quiet(&self) -> bool {
        self.commands.unsent.is_empty()
    }

    /// Returns the number of bytes read until the volume was ready.
    pub(super) fn read_at_start(&self) -> u64 {
        self.commands.read_at_start * SECTOR as u64
    }

    /// Sends a command. It fails soon instead if its device is lost or its zone cannot take it.
    pub(super) fn submit(&mut self, op: Op, command: Command, cx: &mut Cx) {
        if self.layout.zoned {
            return self.submit_to_zone(op, command, cx);
        }
        let starts = cx.life() == Life::Starting;
        // Evaluated in its output slot, because commands are too large to be passed around.
        let command = cx.draft(command);
        if self.is_lost_to(op, command) {
            let command = cx.take_back();
            return self.fail_later((op, command, DeviceError::Removed), cx);
        }
        if starts {
            self.count_read(command);
        }
        cx.send(op);
    }

    fn submit_to_zone(&mut self, op: Op, command: Command, cx: &mut Cx) {
        // Decided first: a command to a lost device must not change the write pointer.
        let lost = self.is_lost_to(op, &command);
        if lost || !self.enter_zone(&command, cx) {
            // Reading a place that was never written is not a fault of the device.
            let unwritten = !lost && matches!(command, Command::Read { .. });
            let error = if unwritten { DeviceError::Media } else { DeviceError::Removed };
            return self.fail_later((op, command, error), cx);
        }
        if cx.life() == Life::Starting {
            self.count_read(&command);
        }
        cx.submit(op, command);
    }

    /// Returns whether the device of a command cannot perform it.
    #[inline]
    fn is_lost_to(&self, op: Op, command: &Command) -> bool {
        command.device().is_some_and(|device| match op {
            // Roots go to joining devices as well, so that they can become members.
            Op::Root { .. } | Op::Turn => !self.takes_roots(device),
            // The journal may occupy a place without a device for stripes.
            Op::Journal(_) => false,
            _ => self.is_missing(device, command),
        })
    }

    /// Lets a command fail in a later round without being sent.
    fn fail_later(&mut self, unsent: (Op, Command, DeviceError), cx: &mut Cx) {
        self.commands.unsent.push_back(unsent);
        // No command is in flight whose completion would start the next round.
        cx.invalidate_fast_path();
        cx.wake();
    }

    /// Counts the sectors read during a start.
    fn count_read(&mut self, command: &Command) {
        if let Command::Read { into, .. } = command {
            self.commands.read_at_start += u64::from(into.sectors());
        }
    }

    /// Sends a command about the zones of a joining device, before it is a member.
    ///
    /// # Panics
    /// If the device is not joining.
    pub(super) fn submit_to_joining(&mut self, device: u8, op: Op, command: Command, cx: &mut Cx) {
        assert!(self.untrusted().contains(device), "a member or an absent device");
        cx.submit(op, command);
    }

    /// Sends a command of recovery to the journal's device.
    pub(super) fn submit_to_journal(&mut self, op: Op, command: Command, cx: &mut Cx) {
        cx.submit(op, command);
    }

    /// Returns whether a device misses the chunk at sector `lba` because it joined later.
    #[inline]
    pub(super) fn lacks(&self, device: u8, lba: u64) -> bool {
        self.membership.any_lacking() && lba >= self.layout.first() && {
            let segment = self.layout.segment_at(lba * SECTOR as u64);
            segment < self.layout.segments && self.membership.is_lacking(segment, device)
        }
    }

    /// Returns whether a device has the chunk at sector `lba`, so that it may be read.
    #[inline]
    pub(super) fn has_chunk(&self, device: u8, lba: u64) -> bool {
        if self.is_returning(device) {
            lba < self.layout.first()
        } else {
            // The roots of a returning device determine which chunks it has, so only they may be
            // read.
            !self.is_inactive(device) && !self.lacks(device, lba)
        }
    }

    /// Returns whether the chunk that a command accesses is missing on the device.
    #[inline]
    fn is_missing(&self, device: u8, command: &Command) -> bool {
        match command {
            Command::Read { lba, .. } => !self.has_chunk(device, *lba),
            _ => self.is_inactive(device),
        }
    }

    /// Takes the next command that fails without being sent.
    pub(super) fn next_unsent(&mut self) -> Option<(Op, Command, DeviceError)> {
        self.commands.unsent.pop_front()
    }

    /// Marks a device as lost after a failure; fails the volume if it is needed.
    pub(super) fn mark_lost(&mut self, device: u8, error: DeviceError, cx: &mut Cx) {
        if self.can_do_without(DeviceSet::single(device)) {
            self.lose(DeviceSet::single(device));
            cx.report(Event::DeviceFailed { device, error, abandoned: false });
        } else {
            fail(device, error, cx);
        }
    }

    /// Discards the commands that were not sent when the power is cut.
    pub(super) fn void(&mut self) {
        self.commands.unsent.drain(..).for_each(|(_, command, _)| command.void());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::chunk_placement::set;

    #[test]
    fn losses_are_bounded_by_parity() {
        let mut devices = Devices::new(Layout::example(3), Members::default(), 1, &[]);
        assert!(devices.can_do_without(set(0b011)), "no root records the needed devices");
        devices.format();
        assert!(devices.can_do_without(set(0b100)) && !devices.can_do_without(set(0b101)));
        devices.lose(set(0b100));
        assert!(
            devices.is_inactive(2)
                && !devices.is_inactive(0)
                && !devices.can_do_without(set(0b001))
        );
        assert!(!devices.is_committed(), "no root records it");
        devices.commit_root(&Root { lost: 0b100, ..Root::default() }, set(0));
        assert!(devices.is_committed());
    }

    #[test]
    #[should_panic(expected = "parity covers the lost devices")]
    fn a_loss_beyond_parity_is_refused() {
        let missing = crate::Members { missing: set(0b01), ..crate::Members::default() };
        let mut devices = Devices::new(Layout::example(2), missing.states(set(0)), 1, &[]);
        devices.format();
        devices.lose(set(0b10));
    }
}
