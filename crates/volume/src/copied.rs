//! Another device in the place of one that can be read, of a volume that is not served and can't
//! make anew what a device held: all that is there is copied.
//!
//! The order keeps a cut harmless: look at everything; clear the new device; copy; write its
//! superblock, which says that it is the member now; write those of the others; put the volume file
//! in its place. Until the first superblock is durable the old device is the member, and the new
//! one is none. The same command again begins anew, or ends what was begun.

use hostftl_core::{DeviceKind, SECTOR};
use hostftl_format::roster::{Record, Stamp, Standing};
use hostftl_format::session::PLACES;
use hostftl_format::superblock::{Superblock, data_window};
use hostftl_io::{Access, Device};
use hostftl_layers::LayerConfig;
use uuid::Uuid;

use crate::beside::Beside;
use crate::config::Config;
use crate::create::Taken;
use crate::error::{Error, device};
use crate::gather::gather_of;
use crate::modelled;
use crate::names::{DeviceId, is_same};
use crate::open::{as_members, infos, plan, seat};
use crate::replace::{ReplaceSpec, Replaced, clear, take_with_room};
use crate::roster::{Roster, stamp, write_ends};
use crate::stack::{Assembly, Member, open_member};

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
        lacks: false,
        served: false,
        notes,
    };
    if is_same(new, &old.path) {
        return Err(device(&spec.new, format!("is device {index} of this volume already")));
    }
    let found = match members(change, config, &layer, &config.devices) {
        Ok(found) => found,
        // After a cut at the end the others do not know the old device any more.
        Err(why) => {
            let found = with_new(change, config, &layer).ok_or(why)?;
            let came = found.members[index].as_ref().map(|member| member.superblock);
            let (mut roster, devices) = seat(found);
            if !spec.rehearse {
                roster.settle(&devices, Standing::of_lost(0))?;
                publish(change, config)?;
            }
            return Ok(replaced(came.as_ref(), vec!["ends what was cut off".into()]));
        }
    };
    let said = found.members[index].as_ref().expect("all members are there").superblock;
    let Taken { device: taken, undo, held } = take(change, &found)?;
    if spec.rehearse {
        return Ok(replaced(None, Vec::new()));
    }
    let notes = held.map(|held| format!("{new} held {held}")).into_iter().collect();
    let layer = as_members(layer, found.missing(), &found.superblock);
    let superblock = superblock(&said, found.superblock, &taken);
    let (mut roster, mut devices) = seat(found);
    clear(&taken)?;
    let all = said.data_len * SECTOR as u64;
    taken.copy_window(&devices[index], &mut |done| tell(done, all))?;
    let from = std::mem::replace(&mut devices[index], taken);
    if plan(&layer, &infos(&devices))?.limits.exported != superblock.exported {
        return Err(device(new, "is not one on which the volume would be laid out as it is"));
    }
    let comes = &devices[index];
    for at in PLACES {
        comes.write_page(at, &from.read_page(at)?)?;
    }
    // The superblock must not become durable before the data and the session marks.
    comes.sync()?;
    write_ends(comes, superblock.device_sectors, |at| superblock.emit(at))?;
    settle(&mut roster, index, superblock, &devices)?;
    publish(change, config)?;
    undo.keep();
    Ok(replaced(Some(&superblock), notes))
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

/// The volume file names the new device from now on.
fn publish(change: &Change, config: &mut Config) -> Result<(), Error> {
    let old = std::mem::replace(&mut config.devices[change.index], change.new.clone());
    if let Some(deadline) = config.deadlines.remove(&old) {
        config.deadlines.insert(change.new.clone(), deadline);
    }
    config.publish_again(&change.spec.path)
}

/// The members with the new device in its place, if all others say that it is one. A single device
/// says so of itself alone, also when it was replaced long ago: what it says is not believed.
fn with_new(change: &Change, config: &Config, layer: &LayerConfig) -> Option<Assembly> {
    let mut names = config.devices.clone();
    names[change.index].clone_from(&change.new);
    (names.len() > 1).then(|| members(change, config, layer, &names).ok())?
}

/// Whether a device has a copy of what the volume holds now, which was cut off at its end: so it
/// may be written again.
fn is_cut_off(change: &Change, newest: &Superblock) -> bool {
    // One that can't be opened is none, and why is said when it is taken.
    let found = open_member(&change.new, Access::ReadOnly).ok();
    found.is_some_and(|Member { superblock: it, .. }| {
        it.volume == newest.volume
            && usize::from(it.index) == change.index
            && (it.generation, it.parent) == (newest.generation + 1, newest.change)
    })
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
    let force = change.spec.force || is_cut_off(change, &found.superblock);
    let taken = take_with_room(
        names,
        &Beside { size: Some(size), zones: None },
        member.superblock.data_len,
        force,
    )?;
    match taken.device.is_zoned() {
        true => Err(device(&change.new, "is zoned, and the old one is not")),
        false => Ok(taken),
    }
}

/// What the new device says of itself: as the old one `said`, by the `newest` of all superblocks.
fn superblock(said: &Superblock, newest: Superblock, taken: &Device) -> Superblock {
    let Stamp { change, at } = stamp();
    let device_sectors = taken.bytes() / SECTOR as u64;
    let mut new = Superblock {
        generation: newest.generation + 1,
        device: *Uuid::new_v4().as_bytes(),
        index: said.index,
        data_start: data_window(device_sectors).0,
        data_len: said.data_len,
        device_sectors,
        change,
        parent: newest.change,
        changed: at,
        ..newest
    };
    new.members[usize::from(said.index)] = new.device;
    new
}
