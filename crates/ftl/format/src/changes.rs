//! Membership changes of a volume: the superblocks of joining devices, and the members after an
//! interrupted change.
//!
//! A change consists of durable steps. It writes the names of joining devices, as pending, into the
//! volume file; then their superblocks; then the superblocks of the other members
//! ([`crate::roster`]); and finally the list of devices into the volume file. After a cut,
//! [`resolve`] decides whether the change is completed or undone.

use alloc::vec::Vec;

use crate::planted::{Bug, planted};
use crate::roster::Stamp;
use crate::superblock::Superblock;

/// Joining device, as described in its superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coming {
    /// New UUID of the device.
    pub uuid: [u8; 16],
    /// First sector of the data.
    pub data_start: u64,
    /// Sectors of data. A replacement has as many as the device that it replaces.
    pub data_len: u64,
    /// Sectors of the device.
    pub device_sectors: u64,
}

/// Returns the superblock of an empty device that replaces member `index`, where the newest
/// superblock is `newest`. The replacement of a hot spare is a hot spare.
pub fn replacement(newest: &Superblock, index: u8, device: Coming, stamp: Stamp) -> Superblock {
    let bit = 1 << index;
    let mut new = Superblock {
        missing: newest.missing & !bit,
        out: newest.out & !bit,
        fresh: newest.fresh | bit,
        leaving: newest.leaving & !bit,
        returning: newest.returning & !bit,
        ..successor(newest, index, device, stamp)
    };
    new.lost[usize::from(index)] = 0;
    new
}

/// Returns the superblock of a device with a complete copy of member `index`, which it replaces.
/// The newest superblock is `newest`.
pub fn successor(newest: &Superblock, index: u8, device: Coming, stamp: Stamp) -> Superblock {
    let Stamp { change, at } = stamp;
    let mut new = Superblock {
        generation: newest.generation + 1,
        device: device.uuid,
        index,
        data_start: device.data_start,
        data_len: newest.lengths[usize::from(index)],
        device_sectors: device.device_sectors,
        change,
        parent: newest.change,
        changed: at,
        ..*newest
    };
    new.members[usize::from(index)] = new.device;
    new
}

/// Returns the superblock of a lost device that returns with its data. Its previous superblock is
/// `own`; the newest one is `newest`.
pub fn comeback(newest: &Superblock, own: &Superblock, stamp: Stamp) -> Superblock {
    let (Stamp { change, at }, bit) = (stamp, 1 << own.index);
    let mut back = Superblock {
        generation: newest.generation + 1,
        missing: newest.missing & !bit,
        out: newest.out & !bit,
        fresh: newest.fresh | bit,
        returning: newest.returning | bit,
        change,
        parent: newest.change,
        changed: at,
        ..*newest
    }
    .for_device_of(own);
    back.lost[usize::from(own.index)] = 0;
    back
}

/// Returns the superblocks of devices that join as additional members, where the newest superblock
/// is `newest`. The volume exports `exported` sectors afterwards. Hot spares stay empty until a
/// member is lost.
pub fn additions(
    newest: &Superblock,
    devices: &[Coming],
    (exported, is_spare): (u64, bool),
    stamp: Stamp,
) -> Vec<Superblock> {
    let Stamp { change, at } = stamp;
    let count = newest.count + devices.len() as u8;
    let fresh = (newest.count..count).fold(0, |set, index| set | 1 << index);
    let mut all = Superblock {
        generation: newest.generation + 1,
        count,
        born: if newest.born == 0 { newest.count } else { newest.born },
        spare: if is_spare { newest.spare | fresh } else { newest.spare },
        exported,
        fresh: newest.fresh | fresh,
        change,
        parent: newest.change,
        changed: at,
        ..*newest
    };
    for (index, one) in (usize::from(newest.count)..).zip(devices) {
        (all.members[index], all.lengths[index]) = (one.uuid, one.data_len);
    }
    let mut list = Vec::new();
    for (index, one) in (newest.count..).zip(devices) {
        (all.index, all.device) = (index, one.uuid);
        (all.data_start, all.data_len) = (one.data_start, one.data_len);
        all.device_sectors = one.device_sectors;
        list.push(all);
    }
    list
}

/// Returns the index of the device that a volume file lists at `place`, according to its
/// superblock; `None` if the newest superblock does not list the device.
pub fn member_at(place: usize, superblock: &Superblock, newest: &Superblock) -> Option<u8> {
    if planted(Bug::PositionForNumber) {
        return Some(place as u8);
    }
    let listed = newest.members.get(usize::from(superblock.index));
    (superblock.volume == newest.volume && listed == Some(&superblock.device))
        .then_some(superblock.index)
}

/// Adds joining devices to the pending list of a volume file, because no superblock names them yet.
pub fn announce<D: From<T>, T: Clone + PartialEq>(
    devices: &mut Vec<D>,
    pending: &mut Vec<T>,
    new: &[T],
) {
    pending.retain(|name| !new.contains(name));
    if planted(Bug::FileBeforeSuperblocks) {
        devices.extend(new.iter().cloned().map(D::from))
    } else {
        pending.extend_from_slice(new)
    }
}

/// Decision about pending devices after an interrupted change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Choice {
    /// Positions of the devices that are members: the change is completed with them.
    come: Vec<usize>,
    /// Positions of the devices whose superblocks are cleared: the change is undone.
    undone: Vec<usize>,
}

/// Decides whether the `pending` devices are members. `is_whole` returns whether a volume with a
/// list of superblocks opens without consent.
///
/// The change is completed if the superblocks of all joining devices are present. Before that no
/// other superblock contains it, and it is undone.
fn choose_pending(
    members: &[Superblock],
    pending: &[Superblock],
    is_whole: impl Fn(&[Superblock]) -> bool,
) -> Choice {
    let last = members.iter().max_by_key(|it| it.generation);
    let generation = last.map_or(0, |it| it.generation);
    // An older superblock belongs to a former member that was about to be cleared, unless the
    // newest superblock lists the device: a loss may have been recorded since it joined. A copy of
    // a member is not a new device.
    let is_new = |at: &usize| {
        let own = &pending[*at];
        let is_copy = members.iter().any(|it| it.device == own.device);
        let is_listed = last.is_some_and(|it| it.members[usize::from(own.index)] == own.device);
        members.first().is_some_and(|it| it.volume == own.volume)
            && (own.generation >= generation || is_listed)
            && !is_copy
    };
    let come: Vec<usize> = (0..pending.len()).filter(is_new).collect();
    let is_replaced = |it: &&Superblock| come.iter().any(|at| pending[*at].index == it.index);
    let with: Vec<Superblock> = come.iter().map(|at| pending[*at]).collect();
    let with: Vec<Superblock> =
        with.into_iter().chain(members.iter().filter(|it| !is_replaced(it)).copied()).collect();
    let is_refused = is_whole(members) && !is_whole(&with) || planted(Bug::PendingIgnored);
    if !is_refused {
        return Choice { come, undone: Vec::new() };
    }
    // Other contents of a device do not belong to this change.
    let follows = |at: &usize| last.is_some_and(|it| pending[*at].parent == it.change);
    Choice { come: Vec::new(), undone: come.into_iter().filter(follows).collect() }
}

/// Devices `T` of a volume file after an interrupted change.
#[derive(Clone, Debug)]
pub struct Resolved<T> {
    /// Listed devices that no new one replaces.
    pub kept: Vec<T>,
    /// Listed devices that new ones replace.
    pub replaced: Vec<T>,
    /// Pending devices that are members.
    pub come: Vec<T>,
    /// Pending devices whose superblocks are cleared.
    pub undone: Vec<T>,
}

/// Decides which of the devices that a volume file lists, and of the pending ones, are members.
/// `superblock` returns the superblock of a device.
pub fn resolve<T>(
    listed: Vec<T>,
    pending: Vec<T>,
    superblock: impl Fn(&T) -> Superblock,
    is_whole: impl Fn(&[Superblock]) -> bool,
) -> Resolved<T> {
    let superblocks = |list: &[T]| -> Vec<Superblock> { list.iter().map(&superblock).collect() };
    let choice = choose_pending(&superblocks(&listed), &superblocks(&pending), is_whole);
    let (mut come, mut undone) = (Vec::new(), Vec::new());
    for (at, device) in pending.into_iter().enumerate() {
        if choice.come.contains(&at) {
            come.push(device);
        } else if choice.undone.contains(&at) {
            undone.push(device);
        }
    }
    let index = |device: &T| superblock(device).index;
    let is_replaced = |it: &T| come.iter().any(|new| index(new) == index(it));
    let (replaced, kept) = listed.into_iter().partition(is_replaced);
    Resolved { kept, replaced, come, undone }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::{Record, Roster, Standing};
    use crate::superblock::Text;

    fn member(index: u8) -> Superblock {
        Superblock {
            generation: 5,
            volume: [9; 16],
            device: [index + 1; 16],
            index,
            count: 3,
            layer_format: 1,
            layer: Text::new("log").unwrap(),
            data_start: 2048,
            data_len: 2048,
            device_sectors: 8192,
            exported: 1000,
            created: 77,
            label: Text::new("").unwrap(),
            change: 50,
            parent: 40,
            changed: 78,
            members: core::array::from_fn(|at| if at < 3 { [at as u8 + 1; 16] } else { [0; 16] }),
            lengths: core::array::from_fn(|at| if at < 3 { 2048 } else { 0 }),
            ..Superblock::default()
        }
    }

    fn coming(uuid: u8) -> Coming {
        Coming { uuid: [uuid; 16], data_start: 2048, data_len: 2048, device_sectors: 8192 }
    }

    const STAMP: Stamp = Stamp { change: 60, at: 80 };

    #[test]
    fn a_place_in_the_file_is_no_member_number() {
        let newest = member(0);
        assert_eq!(member_at(2, &member(1), &newest), Some(1));
        let former = Superblock { device: [99; 16], ..member(1) };
        assert_eq!(member_at(1, &former, &newest), None);
        let foreign = Superblock { volume: [8; 16], ..member(1) };
        assert_eq!(member_at(1, &foreign, &newest), None);
    }

    #[test]
    fn a_change_is_finished_once_the_new_devices_are_members() {
        let members = [member(0), member(1), member(2)];
        let new = additions(&member(0), &[coming(7), coming(8)], (2000, false), STAMP);
        assert_eq!((new[1].index, new[1].count, new[1].fresh), (4, 5, 0b11000));
        let all_there = |list: &[Superblock]| {
            let count = list.iter().map(|it| it.count).max();
            count == Some(list.len() as u8)
        };
        let choose = |pending: &[Superblock]| choose_pending(&members, pending, all_there);
        assert_eq!(choose(&new), Choice { come: vec(&[0, 1]), undone: vec(&[]) });
        assert_eq!(choose(&new[..1]), Choice { come: vec(&[]), undone: vec(&[0]) });
        assert_eq!(choose(&[]), Choice::default());
        let copy = Superblock { generation: 6, parent: 50, ..member(1) };
        assert_eq!(choose(&[copy]), Choice::default());
    }

    #[test]
    fn a_joined_device_is_a_member_after_later_changes() {
        let new = additions(&member(0), &[coming(7)], (2000, false), STAMP)[0];
        // A member was lost since then, and only the others know the new device.
        let later = Superblock { generation: 7, change: 70, parent: 60, missing: 0b10, ..new };
        let others = [later.for_device_of(&member(0)), later.for_device_of(&member(2))];
        let choice = choose_pending(&others, &[new], |list| list.len() == 3);
        assert_eq!(choice, Choice { come: vec(&[0]), undone: vec(&[]) });
    }

    #[test]
    fn an_unrecorded_loss_is_not_acknowledged() {
        let record = |index| Some(Record { superblock: member(index), sound: [true; 2] });
        let mut roster = Roster::new((0..3).map(record));
        assert!(roster.may_promise(0));
        let settled = roster.settle(Standing::from_lost(0b111), || STAMP, |_| Ok::<_, ()>(()));
        assert_eq!(settled, Ok(()));
        assert!(!roster.may_promise(0b111), "no superblock records it");
    }

    #[test]
    fn a_device_is_replaced() {
        let members = [member(0), member(1), member(2)];
        let new = replacement(&member(2), 1, coming(7), STAMP);
        assert_eq!((new.members[1], new.fresh, new.parent), ([7; 16], 0b10, 50));
        let choice = choose_pending(&members, &[new], |list| list.len() == 3);
        assert_eq!(choice, Choice { come: vec(&[0]), undone: vec(&[]) });
    }

    fn vec(places: &[usize]) -> Vec<usize> {
        places.to_vec()
    }
}
