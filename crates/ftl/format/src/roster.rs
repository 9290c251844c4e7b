//! Membership changes of a volume: the superblocks to write, and their order.
//!
//! This module accesses no device. The caller takes one [`Write`] at a time, makes it durable, and
//! reports the result.
//!
//! Invariants
//! - An interrupted change is completed on all present members before the next one begins.
//! - One of the two copies on a device is intact at all times. A damaged copy is written before the
//!   other one is changed, and the second copy only when the first is durable.
//! - Nothing is acknowledged to the host until a loss is recorded in the superblocks of all members
//!   that are not lost.

use alloc::vec::Vec;

use crate::planted::{Bug, planted};
use crate::superblock::Superblock;

/// Superblock with the state of its two copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The valid superblock.
    pub superblock: Superblock,
    /// Which copies, at the head and at the tail, are intact and contain it.
    pub sound: [bool; 2],
}

/// Copy of a superblock that must be written durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Member, by index in the stack.
    pub member: u8,
    /// Place of the copy: 0 is the head, 1 the tail.
    pub copy: usize,
    /// Superblock to write.
    pub superblock: Superblock,
}

/// Identity of a new change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Unique id of the change; not 0.
    pub change: u64,
    /// Time in seconds since 1970; not 0.
    pub at: u64,
}

/// States of the members to record, as bit sets by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Excluded members.
    pub lost: u16,
    /// Excluded members that hold no data; `None` if unknown.
    pub out: Option<u16>,
    /// Joining members that are now complete.
    pub joined: u16,
    /// Removed members.
    pub removed: u16,
    /// Members to be removed; `None` to keep the recorded set.
    pub leaving: Option<u16>,
    /// Hot spares; `None` to keep the recorded set.
    pub spare: Option<u16>,
}

impl Standing {
    /// Returns a standing in which only the lost members are known.
    pub fn from_lost(lost: u16) -> Self {
        Standing { lost, ..Standing::default() }
    }

    /// Returns whether `member`, whose superblock cannot be written, may be excluded too. The layer
    /// can lose `may_lose` of the members `used`. It counts the others already.
    pub fn can_exclude(&self, member: u8, used: u16, may_lose: u32) -> bool {
        let excluded = (self.lost | 1 << member) & used;
        excluded.count_ones() <= may_lose
    }
}

/// Superblocks of a volume's members, by index; `None` for an absent member.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    members: Vec<Option<Member>>,
    /// Superblock that all members must have.
    target: Option<Superblock>,
    /// Whether writes are disabled.
    is_read_only: bool,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    superblock: Superblock,
    /// Change recorded in each copy; `None` for a damaged copy.
    says: [Option<u64>; 2],
}

impl Roster {
    /// Creates the roster of a volume that was just assembled.
    pub fn new(records: impl IntoIterator<Item = Option<Record>>) -> Self {
        let member = |record: Record| {
            let Record { superblock, sound } = record;
            Member { superblock, says: sound.map(|sound| sound.then_some(superblock.change)) }
        };
        let members: Vec<_> = records.into_iter().map(|it| it.map(member)).collect();
        let superblocks = members.iter().flatten().map(|it: &Member| it.superblock);
        let target = superblocks.max_by_key(|one| one.generation);
        Roster { members, target, is_read_only: false }
    }

    /// Disables writes, for a read-only run.
    pub fn read_only(self) -> Self {
        Roster { is_read_only: true, ..self }
    }

    /// Returns the next copy to write until all members that are not lost record `standing`. If
    /// this needs a new change, `stamp` provides its identity. Returns `None` when all members
    /// record it.
    pub fn next(&mut self, standing: Standing, stamp: impl FnOnce() -> Stamp) -> Option<Write> {
        let Standing { lost, out, joined, removed, leaving, spare } = standing;
        if self.is_read_only && !planted(Bug::ReadOnlyWrites) {
            return None;
        }
        // An interrupted change is completed first.
        if let Some(write) = self.unwritten(lost | removed) {
            return Some(write);
        }
        let target = self.target.as_mut()?;
        let more = (lost | removed) & !target.missing;
        let missing = target.missing | more;
        let removed = target.removed | removed;
        let out = out.map_or(target.out, |out| out & missing) | removed;
        let fresh = target.fresh & !(joined | missing);
        let leaving = leaving.unwrap_or(target.leaving) & !removed;
        let spare = spare.unwrap_or(target.spare) & !removed;
        let old = (target.missing, target.out, target.fresh);
        let same = (target.removed, target.leaving, target.spare) == (removed, leaving, spare);
        if old == (missing, out, fresh) && same {
            return None;
        }
        let Stamp { change, at } = stamp();
        (target.parent, target.change, target.changed) = (target.change, change, at);
        (target.missing, target.out, target.fresh) = (missing, out, fresh);
        (target.removed, target.leaving, target.spare) = (removed, leaving, spare);
        target.returning &= fresh;
        target.generation += 1;
        let times = target.lost.iter_mut().enumerate();
        times.filter(|(index, _)| more >> index & 1 == 1).for_each(|(_, time)| *time = at);
        self.unwritten(lost | removed)
    }

    /// Writes all outdated copies with `write`, one at a time, until all members that are not lost
    /// record `standing`.
    ///
    /// # Errors
    /// The member whose copy cannot be written, and the reason.
    pub fn settle<E>(
        &mut self,
        standing: Standing,
        mut stamp: impl FnMut() -> Stamp,
        mut write: impl FnMut(&Write) -> Result<(), E>,
    ) -> Result<(), (u8, E)> {
        // The next copy depends on which ones are durable, so it is chosen again after each write.
        while let Some(next) = self.next(standing, &mut stamp) {
            if let Err(why) = write(&next) {
                // The copy may be torn, so it no longer counts as sound.
                self.failed(&next);
                return Err((next.member, why));
            }
            self.wrote(&next);
        }
        Ok(())
    }

    /// Writes both copies of the superblock of a device that replaces a member, or returns, and
    /// records the device. [`Roster::settle`] then writes those of the others.
    ///
    /// # Errors
    /// The reason why a copy cannot be written. The members stay as they were.
    pub fn install<E>(
        &mut self,
        superblock: Superblock,
        mut write: impl FnMut(&Write) -> Result<(), E>,
    ) -> Result<(), E> {
        let member = superblock.index;
        for copy in [0, 1] {
            write(&Write { member, copy, superblock })?;
        }
        self.replace(member, Record { superblock, sound: [true; 2] });
        Ok(())
    }

    fn unwritten(&self, lost: u16) -> Option<Write> {
        let target = self.target?;
        // An excluded device may still be present.
        let apart = lost | target.missing;
        let there = self.members.iter().enumerate().filter(|(index, _)| apart >> index & 1 == 0);
        there.filter_map(|(index, member)| Some((index, (*member)?))).find_map(|(index, member)| {
            let is_wrong = |copy: &usize| member.says[*copy] != Some(target.change);
            // The damaged copy first, so that one copy is intact at all times.
            let broken = [0, 1].into_iter().find(|copy| member.says[*copy].is_none());
            let broken = broken.filter(|_| !planted(Bug::SoundCopyFirst));
            let is_old = member.superblock.change != target.change;
            if planted(Bug::CutOffForgotten) && is_old && lost & !target.missing == 0 {
                return None;
            }
            let copy = broken.or_else(|| [0, 1].into_iter().find(is_wrong))?;
            let superblock = target.for_device_of(&member.superblock);
            Some(Write { member: index as u8, copy, superblock })
        })
    }

    /// Replaces member `index` by a device whose superblock `record` is already durable.
    /// [`Roster::next`] then returns the writes for all other members.
    ///
    /// # Panics
    /// When the superblock does not describe this change.
    pub fn replace(&mut self, index: u8, record: Record) {
        let target = self.target.expect("a volume has members");
        let new = record.superblock;
        assert_eq!(
            (new.parent, new.index),
            (target.change, index),
            "the entry follows the last change"
        );
        let says = record.sound.map(|sound| sound.then_some(new.change));
        self.members[usize::from(index)] = Some(Member { superblock: new, says });
        self.target = Some(new);
    }

    /// Adds members whose superblocks `records` are already durable. [`Roster::next`] then returns
    /// the writes for all other members.
    ///
    /// # Panics
    /// When the superblocks do not describe this change.
    pub fn add(&mut self, records: impl IntoIterator<Item = Record>) {
        let target = self.target.expect("a volume has members");
        for record in records {
            let new = record.superblock;
            let follows = new.parent == target.change && new.index == self.members.len() as u8;
            assert!(follows, "the entry follows the last change and the last member");
            let says = record.sound.map(|sound| sound.then_some(new.change));
            self.members.push(Some(Member { superblock: new, says }));
            self.target = Some(new);
        }
    }

    /// Records that a copy is durable.
    fn wrote(&mut self, write: &Write) {
        let member = self.members[usize::from(write.member)].as_mut().expect("the member exists");
        member.superblock = write.superblock;
        member.says[write.copy] = Some(write.superblock.change);
    }

    /// Records that the write of a copy failed. Its content is unknown.
    fn failed(&mut self, write: &Write) {
        let member = self.members[usize::from(write.member)].as_mut().expect("the member exists");
        member.says[write.copy] = None;
    }

    /// Returns the excluded members as a bit set by index, as recorded by all members when no write
    /// is left.
    pub fn missing(&self) -> u16 {
        self.target.map_or(0, |target| target.missing)
    }

    /// Returns the superblock of all members when no write is left; `None` for a volume without
    /// superblocks.
    pub fn target(&self) -> Option<Superblock> {
        self.target
    }

    /// Returns whether writes may be acknowledged to the host while the layer runs without `lost`.
    pub fn may_promise(&self, lost: u16) -> bool {
        if planted(Bug::LossAfterFlush) {
            return true;
        }
        // A removed member need not record the change.
        let removed = self.target.map_or(0, |target| target.removed);
        // If no member records the loss, a later start could trust an older one.
        let records = |(index, member): (usize, &Option<Member>)| {
            member.is_some() && (lost | removed) >> index & 1 == 0
        };
        let is_recorded = self.members.is_empty() || self.members.iter().enumerate().any(records);
        is_recorded && lost & !self.missing() == 0 && self.unwritten(lost | removed).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_with_failing_superblocks_are_excluded_only_while_the_layer_can_lose_them() {
        // Member 1 is being rebuilt, so a layer with two parities can lose one more.
        let (used, may_lose) = (0b1101, 1);
        assert!(Standing::from_lost(0).can_exclude(2, used, may_lose));
        assert!(!Standing::from_lost(0b0100).can_exclude(3, used, may_lose));
        assert!(Standing::from_lost(0b0010).can_exclude(3, used, may_lose), "it counts already");
        assert!(!Standing::from_lost(0).can_exclude(2, used, 0));
    }
}
