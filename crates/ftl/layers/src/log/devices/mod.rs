//! The devices of the rows: who is lost, and how commands get there.
//!
//! A device that can't be written is lost: nothing is sent to it any more, and what it holds is
//! older than what the host was promised. A command to a lost device, or to a zone that can't take
//! it, fails without being sent.
//!
//! Invariants
//! - No more devices are lost than parity makes up for.
//! - Nothing is answered as durable while a root has yet to say who is lost: a device that comes
//!   back must never be believed.

mod changes;
mod choice;
pub(in crate::log) mod health;
pub(in crate::log) mod membership;
mod newcomers;
mod reclaim;
mod roots;

use alloc::collections::VecDeque;

use hostftl_core::{
    Command, DeviceError, DeviceInfo, DeviceSet, Event, MemberState, Members, SECTOR,
};
#[cfg(test)]
use hostftl_format::log::Root;

use crate::kit::Life;
use crate::log::layout::Layout;
use crate::log::ops::{Cx, OPS, Op, fail};
use crate::log::segments::Segments;
use crate::log::stripe::Stripe;
use crate::log::zoned::write_pointers::Pointers;
use crate::planted::{Bug, planted};
use health::Health;
use membership::Membership;
use newcomers::Newcomers;
use reclaim::Reclaim;

/// What the durable root says of devices.
#[derive(Debug, Default)]
struct Told {
    /// Those on which nothing lies: no parity makes up for them. All, until recovery has found that
    /// root.
    out: DeviceSet,
    /// The same, of the root that is being written.
    telling: DeviceSet,
    /// Those that lack chunks by what its images say.
    lacking: DeviceSet,
    /// Those on which rows that are replayed may lie.
    replayed: DeviceSet,
}

/// Commands that need more than to be sent.
#[derive(Debug)]
struct Commands {
    /// Those that fail without being sent.
    unsent: VecDeque<(Op, Command, DeviceError)>,
    /// Sectors that were read until the volume was ready.
    read_at_start: u64,
}

#[derive(Debug)]
pub(super) struct Devices {
    layout: Layout,
    /// On which of them each segment lies.
    membership: Membership,
    /// What is known of the zones of zoned devices.
    zones: Pointers,
    /// The state and the role of each.
    members: Members,
    /// What the durable root says.
    told: Told,
    /// Those on which segments are to be opened.
    wanted: DeviceSet,
    /// What roots say of those that came.
    newcomers: Newcomers,
    /// Whether some belong for which it was not chosen yet where segments are opened.
    widens: bool,
    /// How many may be lost.
    most: u32,
    commands: Commands,
    /// Segments that they are to forget.
    reclaim: Reclaim,
    /// Known damage.
    health: Health,
}

impl Devices {
    /// Begins with devices that stand so; `most` may be lost in all.
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
            told: Told { out, ..Told::default() },
            wanted: DeviceSet::EMPTY,
            newcomers: Newcomers::default(),
            widens: false,
            most,
            commands: Commands { unsent, read_at_start: 0 },
            reclaim,
            health: Health::default(),
        }
    }

    /// Where things lie on them.
    #[inline]
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// On which of them segments lie.
    #[inline]
    pub(super) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The same, to be changed.
    pub(super) fn membership_mut(&mut self) -> &mut Membership {
        &mut self.membership
    }

    /// On which of them a segment lies.
    #[inline]
    pub(super) fn stripe(&self, segment: u32) -> Stripe {
        self.membership.of(segment)
    }

    /// Takes a free segment for a stream.
    pub(super) fn open_segment(&mut self, stream: u8, segments: &mut Segments) -> u32 {
        let segment = segments.open(stream);
        let members = self.membership.assign(segment, self.inactive()).members();
        let told = !members.overlaps(self.told.out);
        assert!(told || planted(Bug::ProtectedEarly), "a root says that nothing lies there");
        segment
    }

    /// Their zones.
    #[inline]
    pub(super) fn zones(&self) -> &Pointers {
        &self.zones
    }

    /// Their zones, to be changed.
    pub(super) fn zones_mut(&mut self) -> &mut Pointers {
        &mut self.zones
    }

    /// The state and the role of each.
    #[inline]
    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    /// The devices that are not used, for whatever reason.
    #[inline]
    pub(super) fn inactive(&self) -> DeviceSet {
        self.members.inactive()
    }

    /// Whether `device` is not used.
    #[inline]
    pub(super) fn is_inactive(&self, device: u8) -> bool {
        self.inactive().contains(device)
    }

    /// Lost devices in whose place nothing comes, but as many of them as there is parity: nothing
    /// more can lie on them.
    #[inline]
    pub(super) fn beyond_parity(&self) -> DeviceSet {
        let lost = (self.inactive() & self.membership.all()) - self.untrusted();
        match self.layout.parity {
            0 => DeviceSet::EMPTY,
            parity => lost.iter().skip(parity.into()).collect(),
        }
    }

    /// Whether all of `set` may be lost.
    pub(super) fn can_do_without(&self, set: DeviceSet) -> bool {
        let away = self.inactive() | set;
        let needed = (away - self.told.out) | self.membership.lacking();
        needed.len() <= self.most && away.len() < self.layout.devices.into()
    }

    /// Whether parity makes up for the zones of a segment that failed, beside what it misses. Until
    /// that is known it may miss what any device lacks.
    pub(super) fn can_go_on_in(&self, segment: u32) -> bool {
        let failed = self.zones.failed(segment);
        if self.membership.is_complete() {
            (failed | self.missing_of(segment)).len() <= self.most
        } else {
            self.can_do_without(failed | self.inactive())
        }
    }

    /// These devices are lost.
    pub(super) fn lose(&mut self, set: DeviceSet) {
        assert!(self.can_do_without(set), "no more are lost than parity makes up for");
        for device in set {
            match self.members.get(device).state {
                MemberState::Active => self.members.change(device, MemberState::Lost),
                state if state.is_coming() && self.newcomers.gets_roots(device) => {
                    self.members.change(device, MemberState::Lost);
                }
                _ => {}
            }
        }
        self.newcomers.end(set);
        self.health.lose(set);
        self.note_rebuilt();
    }

    /// Devices that get roots although they are lost.
    pub(super) fn joining(&self) -> DeviceSet {
        self.newcomers.joining()
    }

    /// Devices that came in the place of lost ones, until a root says what they lack.
    #[inline]
    pub(super) fn untrusted(&self) -> DeviceSet {
        self.members.coming()
    }

    /// Whether a device gets roots.
    pub(super) fn takes_roots(&self, device: u8) -> bool {
        !self.is_inactive(device) || self.joining().contains(device)
    }

    /// Whether a durable root says who is lost.
    pub(super) fn is_told(&self) -> bool {
        self.members.are_recorded()
    }

    /// The images of the durable root say that these lack chunks.
    pub(super) fn told_lacking(&mut self, lacking: DeviceSet) {
        self.told.lacking = lacking;
    }

    /// Whether they say so of a device that has all its chunks by now.
    pub(super) fn is_lack_outdated(&self) -> bool {
        !self.told.lacking.is_within(self.membership.lacking())
    }

    /// Whether no device is lost or leaves, nothing misses a chunk, and segments are opened on all
    /// devices.
    pub(super) fn is_as_made(&self) -> bool {
        let all = self.membership.all();
        let on_all = self.membership.current().members() == all;
        let is_changing = self.inactive().overlaps(all)
            || !self.members.leaving().is_empty()
            || !self.untrusted().is_empty();
        !is_changing && on_all && self.exposed() == 0 && self.told.lacking.is_empty()
    }

    /// Whether what a segment has on a device is not there.
    pub(super) fn is_missing_on(&self, segment: u32, device: u8) -> bool {
        self.missing_of(segment).contains(device)
    }

    /// The devices of which the chunks of a segment are not there.
    pub(super) fn missing_of(&self, segment: u32) -> DeviceSet {
        self.membership.missing(segment, self.inactive())
    }

    /// Whether a chunk of a segment is not there.
    pub(super) fn is_missing_a_chunk(&self, segment: u32) -> bool {
        !self.missing_of(segment).is_empty()
    }

    /// How many more devices may be lost, whichever they are; none while recovery finds that out.
    /// A device with known damage counts as missing.
    pub(super) fn may_lose(&self) -> u32 {
        self.may_lose_beside(DeviceSet::EMPTY)
    }

    /// The same, where the damage of the devices `set` does not count.
    pub(super) fn may_lose_beside(&self, set: DeviceSet) -> u32 {
        if !self.membership.is_complete() {
            return 0;
        }
        let out = self.told.out - self.wanted;
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

    /// Whether the volume could do without the devices `set` but for the known damage of others.
    pub(super) fn is_needed_for_repairs(&self, set: DeviceSet) -> bool {
        let all = self.membership.all();
        self.may_lose_beside(set) == 0 && self.may_lose_beside(all | set) > 0
    }

    /// The devices that lack chunks because they came later, by what is known now or by the durable
    /// images.
    pub(super) fn lacking(&self) -> DeviceSet {
        self.membership.lacking() | self.told.lacking
    }

    /// How often segments miss a chunk.
    pub(super) fn exposed(&self) -> u32 {
        self.membership.exposed(self.inactive())
    }

    /// Whether no command waits to fail.
    pub(super) fn is_quiet(&self) -> bool {
        self.commands.unsent.is_empty()
    }

    /// Bytes that were read until the volume was ready.
    pub(super) fn read_at_start(&self) -> u64 {
        self.commands.read_at_start * SECTOR as u64
    }

    /// Sends a command, unless it goes to a lost device, or its zone can't take it: then it fails
    /// soon.
    pub(super) fn submit(&mut self, op: Op, command: Command, cx: &mut Cx) {
        if self.layout.zoned {
            return self.submit_to_zone(op, command, cx);
        }
        let starts = cx.life() == Life::Starting;
        let command = cx.draft(command);
        if self.is_lost_to(op, command) {
            let command = cx.take_back();
            return self.fail_later((op, command, DeviceError::Gone), cx);
        }
        if starts {
            self.count_read(command);
        }
        cx.send(op);
    }

    fn submit_to_zone(&mut self, op: Op, command: Command, cx: &mut Cx) {
        let lost = self.is_lost_to(op, &command);
        if lost || !self.enter_zone(&command, cx) {
            // What was never written there can't be read: that is no fault of the device.
            let unwritten = !lost && matches!(command, Command::Read { .. });
            let error = if unwritten { DeviceError::Media } else { DeviceError::Gone };
            return self.fail_later((op, command, error), cx);
        }
        if cx.life() == Life::Starting {
            self.count_read(&command);
        }
        cx.submit(op, command);
    }

    /// Whether the device of a command can't do it.
    #[inline]
    fn is_lost_to(&self, op: Op, command: &Command) -> bool {
        command.device().is_some_and(|device| match op {
            Op::Root { .. } | Op::Turn => !self.takes_roots(device),
            // Its place may be one in which no device of the rows is.
            Op::Journal(_) => false,
            _ => self.is_missing(device, command),
        })
    }

    /// A command that is not sent fails in a later round.
    fn fail_later(&mut self, unsent: (Op, Command, DeviceError), cx: &mut Cx) {
        self.commands.unsent.push_back(unsent);
        cx.disturb();
        cx.wake();
    }

    /// Counts what a start reads.
    fn count_read(&mut self, command: &Command) {
        if let Command::Read { into, .. } = command {
            self.commands.read_at_start += u64::from(into.sectors());
        }
    }

    /// Sends a command about the zones of a device that came, before it belongs.
    ///
    /// # Panics
    /// When the device is none of these.
    pub(super) fn submit_to_newcomer(&mut self, device: u8, op: Op, command: Command, cx: &mut Cx) {
        assert!(self.untrusted().contains(device), "it belongs, or is not there");
        cx.submit(op, command);
    }

    /// Sends a command of recovery to the journal's device.
    pub(super) fn submit_to_journal(&mut self, op: Op, command: Command, cx: &mut Cx) {
        cx.submit(op, command);
    }

    /// Whether a device lacks the chunk at sector `lba`, because it came later.
    #[inline]
    pub(super) fn lacks(&self, device: u8, lba: u64) -> bool {
        self.membership.any_lacking() && lba >= self.layout.first() && {
            let segment = self.layout.segment_of(lba * SECTOR as u64);
            segment < self.layout.segments && self.membership.is_lacking(segment, device)
        }
    }

    /// Whether a device has the chunk at sector `lba`: only then it is read.
    #[inline]
    pub(super) fn has_chunk(&self, device: u8, lba: u64) -> bool {
        if self.is_returning(device) {
            lba < self.layout.first()
        } else {
            // What it has is known from its roots.
            !self.is_inactive(device) && !self.lacks(device, lba)
        }
    }

    /// Whether what a command is about can't be on a device.
    #[inline]
    fn is_missing(&self, device: u8, command: &Command) -> bool {
        match command {
            Command::Read { lba, .. } => !self.has_chunk(device, *lba),
            _ => self.is_inactive(device),
        }
    }

    /// The next command that fails without being sent.
    pub(super) fn next_unsent(&mut self) -> Option<(Op, Command, DeviceError)> {
        self.commands.unsent.pop_front()
    }

    /// A device can't be used any more: it is lost, or the volume with it.
    pub(super) fn give_up(&mut self, device: u8, error: DeviceError, cx: &mut Cx) {
        if self.can_do_without(DeviceSet::of(device)) {
            self.lose(DeviceSet::of(device));
            cx.tell(Event::DeviceFailed { device, error, abandoned: false });
        } else {
            fail(device, error, cx);
        }
    }

    /// The power is off.
    pub(super) fn void(&mut self) {
        self.commands.unsent.drain(..).for_each(|(_, command, _)| command.void());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::stripe::set;

    #[test]
    fn no_more_are_lost_than_parity_makes_up_for() {
        let mut devices = Devices::new(Layout::example(3), Members::default(), 1, &[]);
        assert!(devices.can_do_without(set(0b011)), "no root says what is needed");
        devices.format();
        assert!(devices.can_do_without(set(0b100)) && !devices.can_do_without(set(0b101)));
        devices.lose(set(0b100));
        assert!(
            devices.is_inactive(2)
                && !devices.is_inactive(0)
                && !devices.can_do_without(set(0b001))
        );
        assert!(!devices.is_told(), "no root says so");
        devices.told(&Root { lost: 0b100, ..Root::default() }, set(0));
        assert!(devices.is_told());
    }

    #[test]
    #[should_panic(expected = "no more are lost")]
    fn one_too_many_is_not_lost() {
        let missing = crate::Members { missing: set(0b01), ..crate::Members::default() };
        let mut devices = Devices::new(Layout::example(2), missing.states(set(0)), 1, &[]);
        devices.format();
        devices.lose(set(0b10));
    }
}
