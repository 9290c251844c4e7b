//! Volume file: lists the devices in any order, and those that a change is about to add.

use hostftl_core::DeviceSet;
use hostftl_format::assemble::{Verdict, assemble};
use hostftl_format::changes::{Resolved, announce, member_at, resolve};
use hostftl_format::roster::Record;
use hostftl_format::superblock::Superblock;

use super::Rule;
use super::life::{End, Life};
use crate::dice::Dice;

/// Volume file. Devices are numbers of disks; `None` is the name `missing`.
#[derive(Clone, Debug)]
pub(super) struct VolumeFile {
    pub devices: Vec<Option<usize>>,
    pub pending: Vec<usize>,
}

impl VolumeFile {
    /// Lists the disks of a new volume in random order.
    pub(super) fn new(count: usize, dice: &mut Dice) -> Self {
        let mut devices: Vec<_> = (0..count).map(Some).collect();
        shuffle(&mut devices, dice);
        VolumeFile { devices, pending: Vec::new() }
    }

    /// Returns the disks that it names, pending ones last.
    pub(super) fn disks(&self) -> impl Iterator<Item = usize> + Clone {
        self.devices.iter().flatten().chain(&self.pending).copied()
    }

    pub(super) fn put(&mut self, old: usize, new: Option<usize>) {
        let place = self.devices.iter_mut().find(|it| **it == Some(old));
        *place.expect("the device is listed") = new;
    }
}

/// Shuffles a list.
pub(super) fn shuffle<T>(list: &mut [T], dice: &mut Dice) {
    for at in (1..list.len()).rev() {
        list.swap(at, dice.below(at as u64 + 1) as usize);
    }
}

/// Members with which a volume starts.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    /// Disk and superblock of each member; `None` for a missing one.
    pub member_disks: Vec<Option<(usize, Record)>>,
    /// Members whose absence requires consent.
    pub unsaid: DeviceSet,
    /// Disks with pending names that are members, and those that are to be cleared.
    pub come: Vec<usize>,
    pub undone: Vec<usize>,
}

impl Judged {
    /// Returns the newest valid superblock.
    pub(super) fn newest(&self) -> Superblock {
        let all = self.member_disks.iter().flatten().map(|(_, record)| record.superblock);
        all.max_by_key(|it| it.generation).expect("a volume has members")
    }
}

impl Life<'_> {
    /// Reads the usable superblocks of these disks.
    fn read(&self, disks: impl Iterator<Item = usize>) -> Vec<(usize, Record)> {
        let here = disks.filter(|disk| self.disks[*disk].here);
        let record = |disk: usize| {
            let chosen = self.disks[disk].superblock().ok()?;
            Some((disk, Record { superblock: chosen.superblock, sound: chosen.sound }))
        };
        here.filter_map(record).collect()
    }

    /// Determines the members that would take part in a start; `None` when a start is refused.
    pub(super) fn judge(&mut self) -> Option<Judged> {
        let listed = self.read(self.file.devices.clone().into_iter().flatten());
        let pending = self.read(self.file.pending.clone().into_iter());
        let tolerates = self.tolerates;
        let superblocks = |list: &[(usize, Record)]| -> Vec<Superblock> {
            list.iter().map(|(_, record)| record.superblock).collect()
        };
        let is_whole = |list: &[Superblock]| assemble(list, tolerates).is_whole();
        let found = resolve(listed, pending, |(_, record)| record.superblock, is_whole);
        let Resolved { kept: mut list, come, undone, .. } = found;
        let new: Vec<u8> = come.iter().map(|(_, record)| record.superblock.index).collect();
        list.extend(come.iter().copied());
        let disks = |list: &[(usize, Record)]| list.iter().map(|(disk, _)| *disk).collect();
        let (come, undone): (Vec<_>, Vec<_>) = (disks(&come), disks(&undone));
        shuffle(&mut list, &mut self.dice);
        if !self.is_over && self.dice.chance(10) && !list.is_empty() {
            list.push(list[0]);
        }
        let listed = self.file.devices.len();
        let more = new.iter().filter(|index| usize::from(**index) >= listed).count();
        let verdict = assemble(&superblocks(&list), tolerates);
        self.record(|_| format!("  {verdict:?}, pending {come:?} join, {undone:?} do not"));
        let judged = |member_disks, unsaid| Judged {
            member_disks,
            unsaid: DeviceSet::from_bits(unsaid),
            come: come.clone(),
            undone: undone.clone(),
        };
        let found = match verdict {
            Verdict::Complete { order } => {
                Some(judged(order.into_iter().map(|at| Some(list[at])).collect(), 0))
            }
            Verdict::Degraded { order, unsaid, .. } => {
                Some(judged(order.into_iter().map(|at| Some(list[at?])).collect(), unsaid))
            }
            Verdict::Apart { .. } => {
                self.seen.apart += 1;
                None
            }
            _ => None,
        };
        // A start refuses a file that lists more or fewer devices than there are members.
        found.filter(|it| usize::from(it.newest().count) == listed + more)
    }

    /// Writes the volume file atomically.
    pub(super) fn write_file(&mut self, edit: impl FnOnce(&mut VolumeFile)) -> Result<(), End> {
        if self.is_crash() {
            return Err(End::Crash);
        }
        edit(&mut self.file);
        Ok(())
    }

    /// Adds devices to the volume file as pending.
    pub(super) fn announce(&mut self, new: &[usize]) -> Result<(), End> {
        self.write_file(|file| announce(&mut file.devices, &mut file.pending, new))
    }

    /// Completes or undoes a change that was interrupted. Sometimes lists the devices by member
    /// number; the owner may change the order again.
    pub(super) fn settle_file(&mut self, judged: &Judged) -> Result<(), End> {
        for disk in &judged.undone {
            self.clear_disk(*disk)?;
        }
        let Judged { member_disks, come, .. } = judged;
        if !self.file.pending.is_empty() {
            let (pending, old) = (self.file.pending.clone(), self.file.devices.clone());
            let index = |disk: usize| {
                let own = |member_disk: &Option<(usize, Record)>| {
                    member_disk.is_some_and(|(it, _)| it == disk)
                };
                member_disks.iter().position(own)
            };
            let uuid_of = |disk: usize| self.disks[disk].superblock().ok().map(|it| it.superblock);
            let mut devices = old;
            for disk in pending.into_iter().filter(|disk| come.contains(disk)) {
                let Some(member) = index(disk) else { continue };
                let is_old = |other: &Option<usize>| {
                    let known = other.and_then(uuid_of);
                    known.is_some_and(|it| usize::from(it.index) == member)
                };
                match devices.iter().position(is_old) {
                    Some(place) => devices[place] = Some(disk),
                    None => devices.push(Some(disk)),
                }
            }
            self.write_file(|file| *file = VolumeFile { devices, pending: Vec::new() })?;
        }
        if self.dice.chance(300) {
            let mut devices = self.file.devices.clone();
            shuffle(&mut devices, &mut self.dice);
            self.write_file(|file| file.devices = devices)?;
        }
        Ok(())
    }

    /// Returns the member that the name of a disk in the volume file denotes.
    pub(super) fn resolve(&self, disk: usize, newest: &Superblock) -> Result<Option<u8>, End> {
        let place = self.file.devices.iter().position(|it| *it == Some(disk));
        let (Some(place), Ok(known)) = (place, self.disks[disk].superblock()) else {
            return Ok(None);
        };
        let found = member_at(place, &known.superblock, newest);
        let is_named =
            |member: &u8| newest.members[usize::from(*member)] == known.superblock.device;
        if found.is_none_or(|member| is_named(&member)) {
            Ok(found)
        } else {
            Err(End::Breach(Rule::TheNamedDevice))
        }
    }

    /// Lists a device no longer.
    pub(super) fn unlist(&mut self, old: usize) -> Result<(), End> {
        self.write_file(|file| {
            file.pending.clear();
            file.put(old, None);
        })
    }
}
