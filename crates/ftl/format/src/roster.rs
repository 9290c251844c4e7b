//! Changes of who belongs to a volume: which superblocks are written, and in which order.
//!
//! Nothing here touches a device: whoever does takes one [`Write`] after the other, makes it
//! durable, and says what came of it.
//!
//! Invariants
//! - A change that was cut off is finished, on all members that are there, before the next begins.
//! - Of the two copies on a device one is always whole: a copy that is not sound is written before
//!   the other is touched, and the second only when the first is durable.
//! - Nothing is promised to a host while a loss is not in all superblocks but those of the lost.

use alloc::vec::Vec;

use crate::planted::{Bug, planted};
use crate::superblock::Superblock;

/// A superblock with what its two copies are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What counts.
    pub superblock: Superblock,
    /// Which of the copies, at the head and at the tail, say so.
    pub sound: [bool; 2],
}

/// One copy that has to be written, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The member, by index in the stack.
    pub member: u8,
    /// Which of the places of a superblock: 0 is the head, 1 the tail.
    pub copy: usize,
    /// What is written.
    pub superblock: Superblock,
}

/// What a new change is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// A number that no other change has; not 0.
    pub change: u64,
    /// The time, in seconds since 1970; not 0.
    pub at: u64,
}

/// What is to be said of the members. Sets of them are sets of bits by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Those that do not belong any more.
    pub lost: u16,
    /// Those of them on which nothing lies any more; `None` when that is not known.
    pub out: Option<u16>,
    /// Those that came and hold what they should by now.
    pub joined: u16,
    /// Those that were removed.
    pub gone: u16,
    /// Those that are to be removed; `None` when that stays as it is.
    pub leaving: Option<u16>,
    /// Those that are kept to take the place of a lost one; `None` when that stays as it is.
    pub spare: Option<u16>,
}

impl Standing {
    /// These are lost, and nothing else is known.
    pub fn of_lost(lost: u16) -> Self {
        Standing { lost, ..Standing::default() }
    }
}

/// The superblocks of a volume's members, by index; `None` for one that is not there.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    members: Vec<Option<Member>>,
    /// What all shall say.
    target: Option<Superblock>,
    /// Whether nothing is written at all.
    looks: bool,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    superblock: Superblock,
    /// The change that each copy tells of; `None` for a copy that is not sound.
    says: [Option<u64>; 2],
}

impl Roster {
    /// Of a volume that was just assembled.
    pub fn new(records: impl IntoIterator<Item = Option<Record>>) -> Self {
        let member = |record: Record| {
            let Record { superblock, sound } = record;
            Member { superblock, says: sound.map(|sound| sound.then_some(superblock.change)) }
        };
        let members: Vec<_> = records.into_iter().map(|it| it.map(member)).collect();
        let superblocks = members.iter().flatten().map(|it: &Member| it.superblock);
        let target = superblocks.max_by_key(|one| one.generation);
        Roster { members, target, looks: false }
    }

    /// One for a look, which writes nothing.
    pub fn look_only(self) -> Self {
        Roster { looks: true, ..self }
    }

    /// The next copy to write, so that all members but those that are lost say how all stand; a
    /// change that this needs is called `stamp`. `None` when all say so.
    pub fn next(&mut self, standing: Standing, stamp: impl FnOnce() -> Stamp) -> Option<Write> {
        let Standing { lost, out, joined, gone, leaving, spare } = standing;
        if self.looks && !planted(Bug::LookWrites) {
            return None;
        }
        if let Some(write) = self.unwritten(lost | gone) {
            return Some(write);
        }
        let target = self.target.as_mut()?;
        let more = (lost | gone) & !target.missing;
        let missing = target.missing | more;
        let gone = target.gone | gone;
        let out = out.map_or(target.out, |out| out & missing) | gone;
        let fresh = target.fresh & !(joined | missing);
        let leaving = leaving.unwrap_or(target.leaving) & !gone;
        let spare = spare.unwrap_or(target.spare) & !gone;
        let old = (target.missing, target.out, target.fresh);
        let same = (target.gone, target.leaving, target.spare) == (gone, leaving, spare);
        if old == (missing, out, fresh) && same {
            return None;
        }
        let Stamp { change, at } = stamp();
        (target.parent, target.change, target.changed) = (target.change, change, at);
        (target.missing, target.out, target.fresh) = (missing, out, fresh);
        (target.gone, target.leaving, target.spare) = (gone, leaving, spare);
        target.returning &= fresh;
        target.generation += 1;
        let times = target.lost.iter_mut().enumerate();
        times.filter(|(index, _)| more >> index & 1 == 1).for_each(|(_, time)| *time = at);
        self.unwritten(lost | gone)
    }

    fn unwritten(&self, lost: u16) -> Option<Write> {
        let target = self.target?;
        // A member that does not belong any more may be there still.
        let apart = lost | target.missing;
        let there = self.members.iter().enumerate().filter(|(index, _)| apart >> index & 1 == 0);
        there.filter_map(|(index, member)| Some((index, (*member)?))).find_map(|(index, member)| {
            let is_wrong = |copy: &usize| member.says[*copy] != Some(target.change);
            let broken = [0, 1].into_iter().find(|copy| member.says[*copy].is_none());
            let broken = broken.filter(|_| !planted(Bug::SoundCopyFirst));
            let is_old = member.superblock.change != target.change;
            if planted(Bug::CutOffForgotten) && is_old && lost & !target.missing == 0 {
                return None;
            }
            let copy = broken.or_else(|| [0, 1].into_iter().find(is_wrong))?;
            let superblock = target.on_device_of(&member.superblock);
            Some(Write { member: index as u8, copy, superblock })
        })
    }

    /// Another device comes in the place of member `index`, whose superblock, durable already, is
    /// `record`: [`Roster::next`] goes on until all others say so.
    ///
    /// # Panics
    /// When that superblock does not say what this change is.
    pub fn replace(&mut self, index: u8, record: Record) {
        let target = self.target.expect("a volume has members");
        let new = record.superblock;
        assert_eq!((new.parent, new.index), (target.change, index), "it follows the last change");
        let says = record.sound.map(|sound| sound.then_some(new.change));
        self.members[usize::from(index)] = Some(Member { superblock: new, says });
        self.target = Some(new);
    }

    /// Devices come as members of their own, whose superblocks, durable already, are `records`:
    /// [`Roster::next`] goes on until all others say so.
    ///
    /// # Panics
    /// When the superblocks do not say what this change is.
    pub fn add(&mut self, records: impl IntoIterator<Item = Record>) {
        let target = self.target.expect("a volume has members");
        for record in records {
            let new = record.superblock;
            let follows = new.parent == target.change && new.index == self.members.len() as u8;
            assert!(follows, "it follows the last change, and the last member");
            let says = record.sound.map(|sound| sound.then_some(new.change));
            self.members.push(Some(Member { superblock: new, says }));
            self.target = Some(new);
        }
    }

    /// A copy is durable.
    pub fn wrote(&mut self, write: &Write) {
        let member = self.members[usize::from(write.member)].as_mut().expect("it is there");
        member.superblock = write.superblock;
        member.says[write.copy] = Some(write.superblock.change);
    }

    /// A copy could not be written: nobody knows what is there.
    pub fn failed(&mut self, write: &Write) {
        let member = self.members[usize::from(write.member)].as_mut().expect("it is there");
        member.says[write.copy] = None;
    }

    /// Who does not belong any more, as a set of bits by index: what all say when nothing is left
    /// to be written.
    pub fn missing(&self) -> u16 {
        self.target.map_or(0, |target| target.missing)
    }

    /// What all say when nothing is left to be written; none of a volume without superblocks.
    pub fn target(&self) -> Option<Superblock> {
        self.target
    }

    /// Whether something may be promised to a host while the layer does without `lost`.
    pub fn may_promise(&self, lost: u16) -> bool {
        if planted(Bug::LossAfterFlush) {
            return true;
        }
        // A member that was removed need not know.
        let gone = self.target.map_or(0, |target| target.gone);
        // Without a member that records the loss, a later start would believe an older one.
        let records = |(index, member): (usize, &Option<Member>)| {
            member.is_some() && (lost | gone) >> index & 1 == 0
        };
        let is_recorded = self.members.is_empty() || self.members.iter().enumerate().any(records);
        is_recorded && lost & !self.missing() == 0 && self.unwritten(lost | gone).is_none()
    }
}
