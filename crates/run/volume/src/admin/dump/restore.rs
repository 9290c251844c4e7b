//! Restores superblocks from a backup on devices that have lost both copies and still hold their
//! data.
//!
//! Only superblocks are written: roots that are older than the data would be damage. The
//! superblocks of the other devices take precedence over the backup: a restored superblock takes
//! its member list from the newest of them.
//!
//! # Invariants
//! - A device with a usable superblock is not written to.
//! - Nothing is written before the volume was recovered in memory with the restored superblocks,
//!   and a sample of its data was read.
//! - No process serves the volume meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hostftl_core::{DeviceSet, SECTOR};
use hostftl_format::assemble::choose;
use hostftl_format::superblock::{SuperFault, Superblock, is_ours, places};
use hostftl_io::{Access, Device};
use serde::Serialize;
use uuid::Uuid;

use super::rehearse::rehearse;
use super::saved;
use super::source::NameKind;
use crate::admin::control::client;
use crate::metadata::config::Config;
use crate::metadata::config::MISSING;
use crate::metadata::modelled;
use crate::metadata::roster::write_ends;
use crate::open::gather::is_absence;
use crate::open::session;
use crate::open::stack::{Member, copies, known_format, time};
use crate::open::volume::lock;
use crate::util::blank::find_format;
use crate::util::error::{Error, device};
use crate::util::volume_lock::VolumeLock;

/// Parameters of a restore.
#[derive(Clone, Debug)]
pub struct RestoreSpec {
    /// Path of the backup.
    pub backup: PathBuf,
    /// The volume file, or all devices in member order.
    pub targets: Vec<String>,
    /// Also restores when a device holds other data now, or a sample of the volume's data is
    /// damaged.
    pub force: bool,
    /// Checks only, and writes nothing.
    pub rehearse: bool,
}

/// Result of a restore or of its rehearsal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// UUID of the volume.
    pub volume: String,
    /// Devices that are present.
    pub devices: Vec<RestoredDevice>,
    /// Bytes of data that were read with these superblocks.
    pub sample_bytes: u64,
    /// Notes for the operator.
    pub notes: Vec<String>,
}

/// A device of a restored volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RestoredDevice {
    /// Name of the device.
    pub name: String,
    /// Index in the stack.
    pub index: u8,
    /// Whether its superblocks were written, or would be; otherwise it has a sound one.
    pub is_new: bool,
    /// Generation of its superblock.
    pub generation: u64,
}

/// An open device with its own superblock or the superblock to be written.
pub(super) struct RestoredMember {
    pub member: Member,
    pub is_new: bool,
}

/// State before devices are opened.
struct Plan {
    saved: BTreeMap<u8, Superblock>,
    /// Device names; the position of each is its index in the volume file.
    names: Vec<String>,
    volume: Uuid,
    force: bool,
}

/// Restores superblocks from a backup.
///
/// # Errors
/// When the backup is damaged or of another volume, the volume is served, a device belongs to
/// another volume, or the volume can't be recovered with the restored superblocks. Nothing was
/// written then.
pub fn restore(spec: &RestoreSpec) -> Result<Restored, Error> {
    let saved = saved::superblocks(&spec.backup)?;
    let volume = Uuid::from_bytes(saved.values().next().expect("a device is missing").volume);
    let (of, config) = file(spec, volume)?;
    let refused = |why| Error::Refused { path: of.clone(), why };
    let restored = client::ask(volume).map_err(|error| error.at(&of))?;
    if let Some(process) = restored.and_then(|restored| restored.status.served_by) {
        return Err(refused(format!("process {process} serves this volume; stop it first")));
    }
    // Both locks are held until the superblocks are written.
    let file_lock = lock(&of)?;
    // A copy of the volume under another file may be served; this lock covers it too.
    let _volume_lock = VolumeLock::take(volume, &of)?;
    let full = |name: &String| match name.as_str() {
        MISSING => Ok(name.clone()),
        name => modelled::full_name(name),
    };
    let names = match &config {
        Some(config) => config.devices.clone(),
        None => spec.targets.iter().map(full).collect::<Result<_, _>>()?,
    };
    let plan = Plan { saved, names, volume, force: spec.force };
    let (mut members, notes) = plan.members()?;
    // The list may be in another order than the stack.
    members.sort_by_key(|member| member.member.superblock.index);
    let restored = members.iter().map(|member| RestoredDevice {
        name: member.member.device.name().into(),
        index: member.member.superblock.index,
        is_new: member.is_new,
        generation: member.member.superblock.generation,
    });
    let devices: Vec<RestoredDevice> = restored.collect();
    let mut restored = Restored { volume: volume.to_string(), devices, sample_bytes: 0, notes };
    let is_new: BTreeSet<u8> =
        members.iter().filter(|it| it.is_new).map(|it| it.member.superblock.index).collect();
    if is_new.is_empty() {
        let why = "every present device has a valid superblock; nothing to restore";
        restored.notes.push(why.into());
        return Ok(restored);
    }
    let shall: Vec<Superblock> = members.iter().map(|member| member.member.superblock).collect();
    let members = members.into_iter().map(|member| member.member).collect();
    let seen = rehearse(members, (&of, config, file_lock), spec.force)?;
    restored.sample_bytes = seen.sample_bytes;
    restored.notes.extend(seen.notes);
    if !spec.rehearse {
        let shall = shall.iter().filter(|it| is_new.contains(&it.index));
        write(&seen.devices, shall, volume)?;
    }
    Ok(restored)
}

/// Writes the superblocks. Before that, it ensures that no session mark claims a clean stop if the
/// end of the last session is unknown.
fn write<'a>(
    devices: &[Device],
    shall: impl Iterator<Item = &'a Superblock>,
    volume: Uuid,
) -> Result<(), Error> {
    // An interruption must not leave usable superblocks without this mark.
    session::forget_end(volume, devices)?;
    for superblock in shall {
        let one = &devices[usize::from(superblock.index)];
        write_ends(one, superblock.device_sectors, |at| superblock.emit(at))?;
    }
    Ok(())
}

/// Returns the path that identifies the volume, and its configuration if it is a volume file.
fn file(spec: &RestoreSpec, volume: Uuid) -> Result<(PathBuf, Option<Config>), Error> {
    let [only] = &spec.targets[..] else { return Ok((spec.backup.clone(), None)) };
    let path = Path::new(only);
    match NameKind::from_path(path)? {
        NameKind::Volume => {}
        NameKind::Device => return Ok((spec.backup.clone(), None)),
        NameKind::Backup => {
            return Err(Error::Asked(format!(
                "{only} is a backup; give the volume file or its devices"
            )));
        }
    }
    let config = Config::load(path)?;
    if config.uuid != volume {
        let why = format!("is volume {}, but the backup is of volume {volume}", config.uuid);
        return Err(Error::Config { path: path.into(), why });
    }
    Ok((path.into(), Some(config)))
}

impl Plan {
    /// Returns the devices that are present, each with its own superblock or the one to be written.
    fn members(&self) -> Result<(Vec<RestoredMember>, Vec<String>), Error> {
        let (mut members, mut lost, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_permuted = false;
        for (at, name) in self.names.iter().enumerate().filter(|(_, name)| *name != MISSING) {
            let one = match modelled::open_as(name, Access::Full) {
                Ok(one) => one,
                Err(error) => {
                    // A device that is in use, for example, must not be treated as missing.
                    if !is_absence(&error) {
                        return Err(error);
                    }
                    notes.push(format!("absent: {error}"));
                    continue;
                }
            };
            match self.own(&one)? {
                Some((superblock, sound)) => {
                    // Then the position in the list says nothing about a device without a
                    // superblock.
                    is_permuted |= usize::from(superblock.index) != at;
                    members.push(restored_member(one, superblock, sound, false));
                }
                None => lost.push((at as u8, one)),
            }
        }
        let superblocks =
            members.iter().map(|member| &member.member.superblock).chain(self.saved.values());
        let newest = *superblocks.max_by_key(|it| it.generation).expect("the backup has a device");
        if is_permuted {
            self.place_by_the_others(&mut lost, &members, newest.count)?;
        }
        for (at, one) in lost {
            let shall = self.shall(&one, at, &newest)?;
            // A file system or partition table is what usually destroyed the superblocks, so it is
            // shown before they are written.
            let held = find_format(&one)?;
            if let Some(held) = held {
                if !self.force {
                    let why = format!("holds {held}; --force would destroy it");
                    return Err(device(one.name(), why));
                }
                notes.push(format!("{} holds {held}", one.name()));
            }
            // Both copies count as sound, because both will be written.
            members.push(restored_member(one, shall, [true; 2], true));
        }
        Ok((members, notes))
    }

    /// Assigns the only remaining member number to the device without a superblock, when the list
    /// is not in member order.
    fn place_by_the_others(
        &self,
        lost: &mut [(u8, Device)],
        members: &[RestoredMember],
        count: u8,
    ) -> Result<(), Error> {
        let is_free = |index: &u8| members.iter().all(|it| it.member.superblock.index != *index);
        let free: Vec<u8> = (0..count).filter(is_free).collect();
        match (lost, &free[..]) {
            ([], _) => Ok(()),
            ([(at, _)], [index]) => {
                *at = *index;
                Ok(())
            }
            ([(_, one), ..], _) => {
                let free: Vec<String> = free.iter().map(u8::to_string).collect();
                let why = format!(
                    "has no superblock and may be any of the devices {}, because the volume file \
                     has another order; give all devices by number instead of the volume file",
                    free.join(", ")
                );
                Err(device(one.name(), why))
            }
        }
    }

    /// Returns the superblock of a device and the validity of each copy; `None` when both are lost.
    fn own(&self, one: &Device) -> Result<Option<(Superblock, [bool; 2])>, Error> {
        let sectors = one.bytes() / SECTOR as u64;
        // A device that was enlarged has its second copy at its former end.
        let were = self.saved.values().map(|it| it.device_sectors).filter(|it| *it < sectors);
        for ends_at in [sectors].into_iter().chain(were) {
            let [(_, head), (_, tail)] = copies(ends_at, |at| one.read_page(at))?;
            match choose(head, tail) {
                Ok(it) if it.superblock.volume == *self.volume.as_bytes() => {
                    known_format(one.name(), &it.superblock)?;
                    return Ok(Some((it.superblock, it.sound)));
                }
                Ok(it) => {
                    let theirs = Uuid::from_bytes(it.superblock.volume);
                    let why = format!("belongs to volume {theirs}, not {}", self.volume);
                    return Err(device(one.name(), why));
                }
                Err(fault @ (SuperFault::Version(_) | SuperFault::Nonsense(_))) => {
                    return Err(device(one.name(), format!("has {fault}; nothing was written")));
                }
                Err(SuperFault::Foreign | SuperFault::Damaged) => {}
            }
        }
        Ok(None)
    }

    /// Returns the superblock to be written to device `at` of the stack, which lost both copies.
    /// `newest` is the newest known superblock of the volume.
    fn shall(&self, one: &Device, at: u8, newest: &Superblock) -> Result<Superblock, Error> {
        let refused = |why: String| Err(device(one.name(), why));
        let Some(own) = self.saved.get(&at) else {
            return refused(format!(
                "has no superblock, and neither has device {at} in the backup"
            ));
        };
        // The device missed writes, so a superblock as a current member would make stale data
        // valid.
        if DeviceSet::from_bits(newest.missing).contains(at) {
            let since = time(newest.lost[usize::from(at)]);
            let since = since.map_or(String::new(), |since| format!(" since {since}"));
            return refused(format!(
                "is device {at}, which the volume excluded{since}; use `hostftl device replace` \
                 to add it as a new device"
            ));
        }
        // The backup is older than a replacement of this member.
        if newest.members[usize::from(at)] != own.device {
            return refused(format!(
                "is in place of device {at}, which was replaced after the backup; make a backup \
                 after each change of devices"
            ));
        }
        if one.bytes() < own.device_sectors * SECTOR as u64 {
            let (was, is) = (own.device_sectors * SECTOR as u64, one.bytes());
            return refused(format!("has {is} bytes, but device {at} of the backup had {was}"));
        }
        // A damaged superblock of another volume is evidence that the device was reused.
        for place in places(own.device_sectors) {
            let page = one.read_page(place)?;
            let theirs = Uuid::from_slice(&page.0[8..24]).expect("16 bytes");
            if is_ours(&page) && theirs != self.volume {
                return refused(format!("has a damaged superblock of volume {theirs}"));
            }
        }
        Ok(newest.for_device_of(own))
    }
}

/// Combines a device with its superblock and sets its window to the data.
fn restored_member(
    mut device: Device,
    superblock: Superblock,
    sound: [bool; 2],
    is_new: bool,
) -> RestoredMember {
    device.set_window(superblock.data_start, superblock.data_len);
    RestoredMember { member: Member { device, superblock, flaw: None, sound }, is_new }
}
