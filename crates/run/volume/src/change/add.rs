//! Adds devices to a volume, as members or as spares.
//!
//! The layer is closed and reopened with a new layout. Existing data is not moved; new stripes also
//! cover the new devices.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use hostftl_core::{DeviceInfo, DeviceSet, Layer, SECTOR};
use hostftl_format::changes::{self, Coming};
use hostftl_format::steps::ADD;
use hostftl_format::superblock::{MAX_DEVICES, RESERVE, Superblock, data_window};
use hostftl_io::{Backing, Device, Driver};
use hostftl_layers::{AnyLayer, LayerConfig, Members};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::changer::{CLOSED, Changer, PATIENCE, PAUSE};
use super::effects::{Change, Place};
use crate::metadata::config::{Config, MISSING};
use crate::metadata::roster::stamp;
use crate::metadata::storage::{self, is_same};
use crate::metadata::{journal, modelled};
use crate::open::machine::{as_members, infos, plan};
use crate::open::names::DeviceId;
use crate::open::take::peer_geometry::PeerGeometry;
use crate::open::take::take_whole;
use crate::running::jobs::Jobs;
use crate::util::error::{AdminError, AdminErrorKind, Error, device};
use crate::util::events::Level;

/// Request to add devices.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AddSpec {
    /// The volume file.
    pub path: PathBuf,
    /// The devices to add. A file that does not exist is created with the required size.
    pub new: Vec<String>,
    /// Whether existing data may be overwritten. Devices in use are always refused.
    pub force: bool,
    /// Whether they become hot spares, which hold no data until they replace a lost device.
    pub spare: bool,
    /// Whether the change is only checked and nothing is written.
    pub rehearse: bool,
}

/// Result of an addition, or of its rehearsal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Added {
    /// The added devices. UUIDs are empty after a rehearsal.
    pub devices: Vec<DeviceId>,
    /// Exported capacity before and after, in bytes.
    pub exported: (u64, u64),
    /// Whether the serving process made the change.
    pub served: bool,
    /// Facts that the administrator should know.
    pub notes: Vec<String>,
}

impl Changer {
    /// Adds devices.
    pub(crate) fn add(self: &Arc<Self>, spec: &AddSpec) -> Result<Added, AdminError> {
        let _changes = self.begin()?;
        let file = self.file()?;
        may_grow(&file, &self.layer(), spec)?;
        let new = names(spec)?;
        // An interrupted addition may have written to its devices; repeating it needs no consent.
        let force = spec.force || new.iter().all(|name| file.pending.contains(name));
        self.has_its_journal()?;
        let (mut peers, gone) = self.may_be_closed()?;
        if spec.spare {
            peers = peers.with_room(spare_sectors(&self.layer(), &self.recorded()?) + 2 * RESERVE);
        }
        refuse_known(spec, (&new, &file.devices), gone)?;
        // A removed device is closed in the background; until then it counts as in use.
        self.are_closed(&new)?;
        let place = Place::New { is_spare: spec.spare };
        let mut change = Change::new(self, place, new.clone());
        for (asked, name) in spec.new.iter().zip(&new) {
            // All devices are claimed before the first write, so that a refusal changes nothing.
            change.take(take_whole((asked, name), &peers, force)?);
        }
        change.notes.extend(zone_note(&peers, spec.spare));
        let first = file.devices.len() as u8;
        let exported = self.would_export(spec, &change.devices)?;
        if spec.rehearse {
            return Ok(added(ids(&new, first), exported, change.notes.clone()));
        }
        let begun = Instant::now();
        // A rehearsal ends before this, so the steps below may write.
        change.run(ADD, 0)?;
        let come: Vec<_> = (first..first + new.len() as u8).map(|index| self.id(index)).collect();
        for DeviceId { number, path, .. } in &come {
            let text = format!(
                "{path} joined as device {number} after {} ms",
                begun.elapsed().as_millis()
            );
            self.sources.samples.events.report(Level::Info, "device-added", text);
        }
        Ok(added(come, exported, change.notes.clone()))
    }

    /// Refuses the change if the journal device is missing.
    fn has_its_journal(&self) -> Result<(), AdminError> {
        let journal = journal::set(&self.layer(), self.config().devices.len());
        let query = |driver: &mut Driver<AnyLayer>, _: &mut Jobs| driver.layer().members().lost();
        let lost = self.port.between(query).ok_or(CLOSED)? & journal;
        match lost.first() {
            None => Ok(()),
            Some(index) => {
                let path = self.path().display();
                let text = format!(
                    "cannot add devices while the journal is missing; reconnect it, or replace it \
                     (`hostftl device replace {path} {index} NEW`), and rerun the command"
                );
                Err(AdminError::new(AdminErrorKind::NeedsHand, text))
            }
        }
    }

    /// Waits until removed devices that are to be added again under these names are closed.
    fn are_closed(&self, new: &[String]) -> Result<(), AdminError> {
        let known = self.config().devices;
        let begun = Instant::now();
        let is_open = |driver: &mut Driver<AnyLayer>, _: &mut Jobs| {
            let mut devices = driver.devices().iter().zip(&known);
            devices.any(|(device, name)| new.contains(name) && device.backing() != Backing::Absent)
        };
        while self.port.between(is_open).ok_or(CLOSED)? {
            if begun.elapsed() > PATIENCE {
                return Err("cannot close the removed device: its commands did not complete".into());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Returns the exported capacity before and after the change, in sectors, or an error if no
    /// layout is possible.
    fn would_export(&self, spec: &AddSpec, come: &[Device]) -> Result<(u64, u64), AdminError> {
        let query = self.port.between(|driver, _| infos(driver.devices()));
        let (others, recorded) = (query.ok_or(CLOSED)?, self.recorded()?);
        let layer = as_members(self.layer(), DeviceSet::from_bits(recorded.missing), &recorded);
        let superblocks = new_superblocks(&layer, &recorded, (others, come), spec.spare);
        let after = superblocks?[0].exported;
        Ok((recorded.exported, after))
    }
}

/// Checks whether the volume can take the requested devices.
fn may_grow(config: &Config, layer: &LayerConfig, spec: &AddSpec) -> Result<(), AdminError> {
    if spec.spare && layer.tolerates() == 0 {
        return Err("a spare needs parity or a mirror".into());
    }
    if config.is_memory() || !layer.kind.registration().promises.changes() {
        return Err(AdminError::refused(format!(
            "cannot add devices to layer {} of this volume; only log supports that",
            layer.kind
        )));
    }
    let (all, most) = (config.devices.len() + spec.new.len(), MAX_DEVICES);
    if all > usize::from(most) {
        return Err(AdminError::refused(format!(
            "a volume has at most {most} devices, and this one would have {all}"
        )));
    }
    Ok(())
}

/// Returns the full names of the new devices.
fn names(spec: &AddSpec) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = Vec::new();
    for asked in &spec.new {
        let name = modelled::full_name(asked)?;
        if names.contains(&name) {
            return Err(device(asked, "is given twice"));
        }
        if let Some(other) = names.iter().find(|other| storage::is_shared(other, &name)) {
            return Err(device(asked, format!("shares storage with {other}")));
        }
        names.push(name);
    }
    Ok(names)
}

/// Refuses a new device that is already a device of the volume and was not removed. `known` is
/// indexed by member number.
fn refuse_known(
    spec: &AddSpec,
    (new, known): (&[String], &[String]),
    removed: DeviceSet,
) -> Result<(), Error> {
    for (asked, name) in spec.new.iter().zip(new) {
        let is_known =
            |at: usize| is_same(&known[at], name) || storage::is_shared(&known[at], name);
        let is_one = |at: &usize| is_known(*at) && !removed.contains(*at as u8);
        let mut places = (0..known.len()).filter(is_one);
        if let Some(at) = places.next() {
            return Err(device(asked, format!("is already device {at} of this volume")));
        }
    }
    Ok(())
}

/// Appends the names of the new devices. The previous entry of a removed device that is added again
/// becomes `missing`.
pub(super) fn append_names(devices: &mut Vec<String>, new: &[String]) {
    let left = devices.iter_mut().filter(|name| new.contains(name));
    left.for_each(|name| *name = MISSING.into());
    devices.extend_from_slice(new);
}

/// Returns a note about capacity if zoned devices are added.
fn zone_note(peers: &PeerGeometry, is_spare: bool) -> Option<String> {
    let note = "on zoned devices, a new device adds over-provisioning and less copying by garbage \
                collection; the export keeps its size";
    (peers.zones.is_some() && !is_spare).then(|| note.into())
}

/// Returns IDs without UUIDs for new devices, numbered from `first`.
fn ids(new: &[String], first: u8) -> Vec<DeviceId> {
    let both = (first..).zip(new.iter().cloned());
    both.map(|(number, path)| DeviceId { number, uuid: String::new(), path }).collect()
}

/// Returns the reply for these devices; `exported` is in sectors.
fn added(devices: Vec<DeviceId>, exported: (u64, u64), notes: Vec<String>) -> Added {
    let bytes = |sectors: u64| sectors * SECTOR as u64;
    Added { devices, exported: (bytes(exported.0), bytes(exported.1)), served: true, notes }
}

/// Returns the sectors of data that a spare needs to replace any device: the used length of the
/// longest one. Sectors beyond the length of all but `tolerates()` devices are unused.
fn spare_sectors(layer: &LayerConfig, recorded: &Superblock) -> u64 {
    let apart = DeviceSet::from_bits(recorded.removed | recorded.leaving | recorded.spare);
    let all = DeviceSet::first_n(recorded.count.into());
    let rows = all - apart - journal::recorded(layer, recorded);
    let mut lengths: Vec<u64> =
        rows.iter().map(|index| recorded.lengths[usize::from(index)]).collect();
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
        "is too small for a spare: it has room for {} bytes of data, but replacing any device \
         needs {}; use one of at least {} bytes",
        bytes(has),
        bytes(needed),
        bytes(needed + 2 * RESERVE)
    );
    Err(device(one.name(), why))
}

/// Returns the superblocks of the `new` devices. `layer` is the layer over the `others`, whose
/// newest superblock is `before`.
///
pub(super) fn new_superblocks(
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
    let fresh: DeviceSet = (before.count..count).collect();
    // 0 means that no device was ever added; the layout depends on the number at creation.
    let born = if before.born == 0 { before.count } else { before.born };
    let spare = DeviceSet::from_bits(before.spare);
    let spare = if is_spare { spare | fresh } else { spare };
    let members = Members { born, fresh: DeviceSet::EMPTY, spare, ..layer.members };
    let wider = LayerConfig { members, exported: 0, ..layer.clone() };
    let room = plan(&wider, &others)?.limits.exported;
    // The export never shrinks, because clients may use its full size.
    let exported = if is_spare { before.exported } else { room.max(before.exported) };
    let coming = |one: &Device| {
        let device_sectors = one.bytes() / SECTOR as u64;
        let (uuid, data_len) = (*Uuid::new_v4().as_bytes(), one.info().sectors);
        Coming { uuid, data_start: data_window(device_sectors).0, data_len, device_sectors }
    };
    let coming: Vec<_> = new.iter().map(coming).collect();
    Ok(changes::additions(before, &coming, (exported, is_spare), stamp()))
}
