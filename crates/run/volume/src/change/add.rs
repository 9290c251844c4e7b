//! More devices for a volume: the process that serves it does that, see [`crate::change::served`],
//! or this one, when none does.
//!
//! The order keeps a cut harmless: look at everything; name the new devices as pending in the
//! volume file; clear them; write their superblocks, which say that they hold nothing yet; write
//! those of the others; list the new devices in the volume file. Nothing else is written: where
//! things lie stays as it is, and rows become wider when the volume is served. The next start, or
//! the same command, finishes or undoes a change that was cut off: see [`crate::open::cut`].

use std::cmp::Reverse;
use std::path::PathBuf;

use hostftl_core::{DeviceInfo, DeviceSet, SECTOR};
use hostftl_format::changes::{self, Coming};
use hostftl_format::roster::Record;
use hostftl_format::superblock::{MAX_DEVICES, RESERVE, Superblock, data_window};
use hostftl_io::{Device, IoError};
use hostftl_layers::{LayerConfig, Members};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::metadata::config::{Config, MISSING};
use crate::metadata::roster::stamp;
use crate::metadata::storage::{self, is_same};
use crate::metadata::superblocks::describe;
use crate::metadata::{journal, modelled};
use crate::open::machine::{infos, plan};
use crate::open::names::DeviceId;
use crate::open::take::peer_geometry::Beside;
use crate::util::error::{AdminError, Error, device};

/// What is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AddSpec {
    /// The volume file.
    pub path: PathBuf,
    /// The devices that come; a file that does not exist is made, as large as is needed.
    pub new: Vec<String>,
    /// Whether they may hold something. What is in use is refused all the same.
    pub force: bool,
    /// Whether they are spare: they take the place of lost ones by themselves, and nothing lies on
    /// them before.
    pub spare: bool,
    /// Whether nothing is written.
    pub rehearse: bool,
}

/// What was done, or would be. Lengths are in bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Added {
    /// The devices that came; their UUIDs are empty while nothing is written.
    pub devices: Vec<DeviceId>,
    /// What clients see before and after.
    pub exported: (u64, u64),
    /// Whether the process did it that serves the volume.
    pub served: bool,
    /// What should be known.
    pub notes: Vec<String>,
}

/// Writes what new devices say of themselves.
///
/// # Errors
/// When one of them can't be written.
pub(crate) fn write(fresh: &[Device], superblocks: &[Superblock]) -> Result<(), IoError> {
    let both = fresh.iter().zip(superblocks);
    both.into_iter().try_for_each(|(one, superblock)| describe(one, superblock))
}

/// A superblock that was just written.
pub(crate) fn record(superblock: &Superblock) -> Record {
    Record { superblock: *superblock, sound: [true; 2] }
}

/// Whether a volume may get the devices that are wanted.
pub(crate) fn may_grow(
    config: &Config,
    layer: &LayerConfig,
    spec: &AddSpec,
) -> Result<(), AdminError> {
    if spec.spare && layer.tolerates() == 0 {
        return Err("a spare is of use only where a loss is survived: with parity".into());
    }
    if config.is_memory() || !layer.kind.registration().promises.changes() {
        return Err(AdminError::refused(format!(
            "layer {} of this volume keeps the devices that it was made with; only log takes more",
            layer.kind
        )));
    }
    let (all, most) = (config.devices.len() + spec.new.len(), MAX_DEVICES);
    if all > usize::from(most) {
        return Err(AdminError::refused(format!(
            "a volume has up to {most} devices, and this one would have {all}"
        )));
    }
    Ok(())
}

/// The full names of the new devices.
pub(crate) fn names(spec: &AddSpec) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = Vec::new();
    for asked in &spec.new {
        let name = modelled::full_name(asked)?;
        if names.contains(&name) {
            return Err(device(asked, "is named twice"));
        }
        if let Some(other) = names.iter().find(|other| storage::is_shared(other, &name)) {
            return Err(device(asked, format!("shares its storage with {other}")));
        }
        names.push(name);
    }
    Ok(names)
}

/// Refuses a new device that is one of the volume's already, and has not left it. `known` is by
/// member number.
pub(crate) fn refuse_known(
    spec: &AddSpec,
    (new, known): (&[String], &[String]),
    gone: u16,
) -> Result<(), Error> {
    for (asked, name) in spec.new.iter().zip(new) {
        let is_known =
            |at: usize| is_same(&known[at], name) || storage::is_shared(&known[at], name);
        let is_one = |at: &usize| is_known(*at) && gone >> at & 1 == 0;
        let mut places = (0..known.len()).filter(is_one);
        if let Some(at) = places.next() {
            return Err(device(asked, format!("is device {at} of this volume already")));
        }
    }
    Ok(())
}

/// Names the new devices after the others; one that had left has its name in the new place alone.
pub(crate) fn come_in(devices: &mut Vec<String>, new: &[String]) {
    let left = devices.iter_mut().filter(|name| new.contains(name));
    left.for_each(|name| *name = MISSING.into());
    devices.extend_from_slice(new);
}

/// What should be known where devices with zones come.
pub(crate) fn of_zones(beside: &Beside, is_spare: bool) -> Option<String> {
    let note = "with zones, more devices are spare room, so that garbage collection copies less; \
                what clients see stays as large as it was";
    (beside.zones.is_some() && !is_spare).then(|| note.into())
}

/// The devices with these names as members from number `first` on; their UUIDs where a superblock
/// says them.
pub(crate) fn ids(new: &[String], first: u8, said: Option<&Superblock>) -> Vec<DeviceId> {
    let uuid = |index: u8| said.map(|it| Uuid::from_bytes(it.members[usize::from(index)]));
    let both = (first..).zip(new.iter().cloned());
    both.map(|(number, path)| DeviceId {
        number,
        uuid: uuid(number).map_or(String::new(), |uuid| uuid.to_string()),
        path,
    })
    .collect()
}

/// The reply: these devices come; `exported` is in sectors.
pub(crate) fn added(devices: Vec<DeviceId>, exported: (u64, u64), notes: Vec<String>) -> Added {
    let bytes = |sectors: u64| sectors * SECTOR as u64;
    Added { devices, exported: (bytes(exported.0), bytes(exported.1)), served: false, notes }
}

/// Sectors of data that a spare needs to take the place of any device: as many as are in use on the
/// longest. What only as many devices have as may be lost is used on none.
pub(crate) fn spare_sectors(layer: &LayerConfig, said: &Superblock) -> u64 {
    let apart = journal::bit_in(layer, said) | said.gone | said.leaving | said.spare;
    let rows = (0..usize::from(said.count)).filter(|index| apart >> index & 1 == 0);
    let mut lengths: Vec<u64> = rows.map(|index| said.lengths[index]).collect();
    lengths.sort_unstable_by_key(|length| Reverse(*length));
    lengths.get(layer.tolerates() as usize).copied().unwrap_or(0)
}

fn refuse_short(one: &Device, needed: u64) -> Result<(), Error> {
    let bytes = |sectors: u64| sectors * SECTOR as u64;
    let has = one.info().sectors;
    if has >= needed {
        return Ok(());
    }
    let why = format!(
        "is too short for a spare: it has room for {} bytes of data, and {} are needed to take the \
         place of any device; use one of {} bytes or more",
        bytes(has),
        bytes(needed),
        bytes(needed + 2 * RESERVE)
    );
    Err(device(one.name(), why))
}

/// What the new devices say of themselves that come beside `others`, which say `before`; the layer
/// is the one over the others.
///
/// # Errors
/// When the volume can't be laid out with them.
pub(crate) fn superblocks(
    layer: &LayerConfig,
    before: &Superblock,
    (mut others, new): (Vec<DeviceInfo>, &[Device]),
    is_spare: bool,
) -> Result<Vec<Superblock>, Error> {
    if is_spare {
        let needed = spare_sectors(layer, before);
        new.iter().try_for_each(|one| refuse_short(one, needed))?;
    }
    others.extend(infos(new));
    let count = others.len() as u8;
    let fresh = (before.count..count).fold(0, |set, index| set | 1 << index);
    let born = if before.born == 0 { before.count } else { before.born };
    let spare = if is_spare { before.spare | fresh } else { before.spare };
    let spare = DeviceSet::from_bits(spare);
    let members = Members { born, fresh: DeviceSet::EMPTY, spare, ..layer.members };
    let wider = LayerConfig { members, exported: 0, ..layer.clone() };
    let room = plan(&wider, &others)?.limits.exported;
    let exported = if is_spare { before.exported } else { room.max(before.exported) };
    let coming = |one: &Device| {
        let device_sectors = one.bytes() / SECTOR as u64;
        let (uuid, data_len) = (*Uuid::new_v4().as_bytes(), one.info().sectors);
        Coming { uuid, data_start: data_window(device_sectors).0, data_len, device_sectors }
    };
    let coming: Vec<_> = new.iter().map(coming).collect();
    Ok(changes::additions(before, &coming, (exported, is_spare), stamp()))
}
