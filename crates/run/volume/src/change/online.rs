//! A device that was lost comes back to a volume: to the process that serves it, see
//! [`crate::change::served`], or to this one, when none does.
//!
//! It keeps what it has: when the volume is served, the layer finds out from the device's newest
//! root what was written since, and makes that alone anew. The order keeps a cut harmless, as with
//! another device in its place: its superblock is written first, then those of the others.

use std::path::Path;

use hostftl_core::SECTOR;
use hostftl_format::roster::{Record, Standing};
use hostftl_format::superblock::Superblock;
use hostftl_io::Access;
use uuid::Uuid;

use crate::change::interrupted;
use crate::metadata::config::Config;
use crate::metadata::roster::write_ends;
use crate::metadata::superblocks;
use crate::open::gather::{OpenOptions, gather, refusal};
use crate::open::names::{DeviceId, Names};
use crate::open::stack::{Member, Redundancy, open_member};
use crate::open::volume::seat;
use crate::util::error::{Error, device};

/// What came of a device that is back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Back {
    /// The device.
    pub device: DeviceId,
    /// Whether it was out; else it belongs already.
    pub is_new: bool,
    /// Whether the volume is served, and made what it lacks from then on.
    pub served: bool,
    /// Facts that the operator should know.
    pub notes: Vec<String>,
}

/// Takes a device back that the volume does without. The volume is not served, and this process has
/// locked it; `config` is the content of its volume file, and `wanted` the complete name of the
/// device.
///
/// # Errors
/// When the volume does without others too that belong; when the device is not the
/// one that was lost. Nothing was changed then.
pub(crate) fn online(path: &Path, mut config: Config, wanted: &str) -> Result<Back, Error> {
    let wrong = |why: String| Error::Config { path: path.into(), why };
    let layer = config.layer_config().map_err(wrong)?;
    if layer.tolerates() == 0 || !layer.kind.registration().promises.changes() {
        let journal =
            if layer.log.journal { ", but for its journal: `serve` takes that back" } else { "" };
        let why = format!("no device leaves layer {} while it serves{journal}", layer.kind);
        return Err(wrong(why));
    }
    interrupted::finish(path, &mut config, &layer, false)?;
    let names = Names::read(&config);
    let index = usize::from(names.resolve(wanted, 0).map_err(|error| error.at(path))?);
    let back =
        |is_new| Back { device: names.id(index as u8), is_new, served: false, notes: Vec::new() };
    let redundancy = Redundancy { devices: layer.tolerates(), journal: layer.log.journal };
    let found = gather((&config.devices, &[]), redundancy, &OpenOptions::default())?;
    let name = &config.devices[index];
    if found.unsaid != 0 {
        return Err(refusal(path, &found, &config.devices, "hostftl serve --degraded"));
    }
    let (newest, bit) = (found.superblock, 1_u16 << index);
    if newest.missing & bit == 0 {
        if found.missing() & bit != 0 {
            // The journal: nothing keeps it out but that it is not there.
            open_member(name, Access::ReadOnly)?;
        }
        return Ok(back(false));
    }
    if newest.gone & bit != 0 {
        return Err(device(name, "was removed: `hostftl device add` takes it as a new one"));
    }
    let own = open_member(name, Access::Full)?;
    if own.device.is_zoned() {
        // Whether it has the only copy of something is known while the volume is served.
        let why = "has zones, and is made anew from the others while clients are served: \
                   `hostftl serve --degraded`, and type the same again";
        return Err(device(name, why));
    }
    let said = superblocks::comeback(&newest, &verify(&own, &newest, index)?);
    let lost = found.missing() & !bit;
    // A volume file that can't be written is known before a superblock is.
    Config::set_offline(path, Uuid::from_bytes(said.device), false)?;
    let (mut roster, mut devices) = seat(found);
    devices[index] = own.device;
    let sectors = devices[index].bytes() / SECTOR as u64;
    assert!(sectors >= said.device_sectors, "it was opened as a member");
    write_ends(&devices[index], said.device_sectors, |at| said.emit(at))?;
    roster.replace(index as u8, Record { superblock: said, sound: [true; 2] });
    roster.settle(&devices, Standing::of_lost(lost))?;
    Ok(back(true))
}

/// The superblock of a device that is to come back in place `index`, which has to be the one that
/// was lost.
///
/// # Errors
/// When it is another.
pub(crate) fn verify(own: &Member, newest: &Superblock, index: usize) -> Result<Superblock, Error> {
    let said = own.superblock;
    let is_it = said.volume == newest.volume
        && said.device == newest.members[index]
        && said.generation < newest.generation;
    if is_it {
        return Ok(said);
    }
    if said.device == newest.members[index] && said.volume == newest.volume {
        let why = "is as new as the others: it was not lost, or they are older copies";
        return Err(device(own.device.name(), why));
    }
    let (was, is) = (newest.members[index], said.device);
    let why = format!(
        "is not the device that was lost ({}) but {}; `hostftl device replace` takes it as a new \
         one",
        Uuid::from_bytes(was),
        Uuid::from_bytes(is)
    );
    Err(device(own.device.name(), why))
}
