//! Another device in the place of one that can be read, of a volume that is not served and can't
//! make anew what a device held: all that is there is copied.
//!
//! The order keeps a cut harmless: look at everything; name the new device as pending in the volume
//! file; clear it; copy; write its superblock, which says that it is the member now; write those of
//! the others; list the new device in the volume file. Until its superblock is durable the old
//! device is the member, and the new one is none. The next start, or the same command, finishes or
//! undoes a change that was cut off: see [`crate::open::cut`].

use hostftl_core::{DeviceKind, SECTOR};
use hostftl_format::roster::{Record, Standing};
use hostftl_format::session::PLACES;
use hostftl_format::superblock::Superblock;
use hostftl_io::Device;
use hostftl_layers::LayerConfig;
use uuid::Uuid;

use crate::change::replace::{ReplaceSpec, Replaced, clear, take_with_room};
use crate::metadata::config::Config;
use crate::metadata::modelled;
use crate::metadata::roster::{Roster, write_ends};
use crate::metadata::storage::is_same;
use crate::metadata::{storage, superblocks};
use crate::open::gather::gather_of;
use crate::open::machine::{as_members, infos, plan};
use crate::open::names::DeviceId;
use crate::open::stack::Assembly;
use crate::open::take::Taken;
use crate::open::take::peer_geometry::Beside;
use crate::open::volume::seat;
use crate::util::error::{Error, device};

/// The device that goes and the one that comes.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub spec: &'a ReplaceSpec,
    /// The number of the device in the volume, and the full name of the new one.
    pub index: usize,
    pub old: DeviceId,
    pub new: String,
}

/// Copies what a device holds to another, which takes its place. `tell` hears how many bytes are
/// copied, and of how many.
///
/// # Errors
/// When a device of the volume is not there or can't be read, or the new one stands in the way.
/// Nothing was changed then.
pub(crate) fn copy(
    change: &Change,
    config: &mut Config,
    layer: LayerConfig,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Replaced, Error> {
    let Change { spec, index, old, new } = change;
    let index = *index;
    let replaced = |came: Option<&Superblock>, notes| Replaced {
        old: old.clone(),
        new: DeviceId {
            number: index as u8,
            uuid: came.map_or(String::new(), |it| Uuid::from_bytes(it.device).to_string()),
            path: new.clone(),
        },
        was_lost: false,
        copied: true,
        copying: false,
        lacks: false,
        served: false,
        notes,
    };
    if is_same(new, &old.path) || storage::is_shared(new, &old.path) {
        return Err(device(&spec.new, format!("is device {index} of this volume already")));
    }
    let found = members(change, config, &layer, &config.devices)?;
    let Taken { device: taken, undo, held } = take(change, &found)?;
    if spec.rehearse {
        return Ok(replaced(None, Vec::new()));
    }
    let mut notes: Vec<String> =
        held.map(|held| format!("{new} held {held}")).into_iter().collect();
    let layer = as_members(layer, found.missing(), &found.superblock);
    let superblock =
        superblocks::copy(&found.superblock, index as u8, taken.bytes() / SECTOR as u64);
    let (mut roster, mut devices) = seat(found);
    config.announce_at(index as u8, &spec.path, new).map_err(|error| error.at(&spec.path))?;
    let from = std::mem::replace(&mut devices[index], taken);
    let copied = (|| {
        if plan(&layer, &infos(&devices))?.limits.exported != superblock.exported {
            return Err(device(new, "is not one on which the volume would be laid out as it is"));
        }
        copy_all((&from, &devices[index]), &superblock, tell)
    })();
    if let Err(error) = copied {
        config.publish_again(&spec.path).ok();
        return Err(error);
    }
    // Its superblock says that it is the member: from here on the change is only finished.
    undo.keep();
    settle(&mut roster, index, superblock, &devices)?;
    notes.extend(publish(change, config));
    Ok(replaced(Some(&superblock), notes))
}

/// Copies what a device holds, then makes the other one the member.
fn copy_all(
    (from, comes): (&Device, &Device),
    superblock: &Superblock,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    clear(comes)?;
    let all = superblock.data_len * SECTOR as u64;
    comes.copy_window(from, &mut |done| tell(done, all))?;
    for at in PLACES {
        comes.write_page(at, &from.read_page(at)?)?;
    }
    // The superblock must not become durable before the data and the session marks.
    comes.sync()?;
    Ok(write_ends(comes, superblock.device_sectors, |at| superblock.emit(at))?)
}

fn settle(
    roster: &mut Roster,
    index: usize,
    superblock: Superblock,
    devices: &[Device],
) -> Result<(), Error> {
    roster.replace(index as u8, Record { superblock, sound: [true; 2] });
    Ok(roster.settle(devices, Standing::of_lost(0))?)
}

/// Lists the new device in the volume file. Returns a warning when that can't be written.
fn publish(change: &Change, config: &mut Config) -> Option<String> {
    let old = std::mem::replace(&mut config.devices[change.index], change.new.clone());
    if let Some(deadline) = config.deadlines.remove(&old) {
        config.deadlines.insert(change.new.clone(), deadline);
    }
    config.conclude(&change.spec.path)
}

/// The members with these names: all must be there, but for those without which a `log` with a
/// journal goes on.
fn members(
    change: &Change,
    config: &Config,
    layer: &LayerConfig,
    names: &[String],
) -> Result<Assembly, Error> {
    let found = gather_of(&change.spec.path, config, layer, names)?;
    let without = if layer.log.journal { found.superblock.missing } else { 0 };
    if found.missing() & (!without | 1 << change.index) != 0 {
        let why = "a device is copied while all others are there, and some are not".into();
        return Err(Error::Config { path: change.spec.path.clone(), why });
    }
    let mut members = found.members.iter().flatten();
    if let Some(one) = members.find(|it| it.device.info().kind != DeviceKind::Block) {
        return Err(device(one.device.name(), "is zoned: such a device can't be copied yet"));
    }
    Ok(found)
}

/// The device that comes, with its window set, for this process alone.
fn take(change: &Change, found: &Assembly) -> Result<Taken, Error> {
    let member = found.members[change.index].as_ref().expect("all members are there");
    if [member.device.name(), &change.new].into_iter().any(|it| modelled::backing(it).is_some()) {
        return Err(device(&change.new, "stands for a drive, or the old one does: copy its file"));
    }
    let (names, size) = ((change.spec.new.as_str(), change.new.as_str()), member.device.bytes());
    let taken = take_with_room(
        names,
        &Beside { size: Some(size), zones: None },
        member.superblock.data_len,
        change.spec.force,
    )?;
    match taken.device.is_zoned() {
        true => Err(device(&change.new, "is zoned, and the old one is not")),
        false => Ok(taken),
    }
}
