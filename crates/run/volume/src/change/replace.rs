//! Another device in the place of one of a volume: the process that serves it does that, see
//! [`crate::change::served`], or this one, when none does. Where nothing can be made anew, it is
//! copied: see [`crate::change::copied`].
//!
//! The order keeps a cut harmless: look at everything; name the new device as pending in the volume
//! file; clear it; write its superblock, which says that it holds nothing yet; write those of the
//! others; list the new device in the volume file. The next start, or the same command, finishes or
//! undoes a change that was cut off: see [`crate::open::cut`]. What the device lacks is made while
//! the volume is served.

use std::fs::File;
use std::path::{Path, PathBuf};

use hostftl_core::{Layer, Page, SECTOR, SECTORS_PER_BLOCK};
use hostftl_format::roster::{Record, Standing};
use hostftl_format::superblock::{RESERVE, Superblock, data_window};
use hostftl_io::{Access, Device, IoError};
use hostftl_layers::LayerConfig;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::change::copied::{self, Change};
use crate::change::interrupted;
use crate::metadata::claims;
use crate::metadata::config::Config;
use crate::metadata::journal;
use crate::metadata::modelled;
use crate::metadata::roster::write_ends;
use crate::metadata::storage::is_same;
use crate::metadata::{storage, superblocks};
use crate::open::gather::{gather_of, refusal};
use crate::open::inspect::{Data, inspect};
use crate::open::machine::{as_members, infos, plan};
use crate::open::names::{DeviceId, Names};
use crate::open::stack::{Assembly, Member, open_member};
use crate::open::take::peer_geometry::Beside;
use crate::open::take::{Taken, take_device};
use crate::open::volume::{open_fresh, raise, seat};
use crate::util::error::{Error, device, file};

/// So much at the head of the data is overwritten, in bytes: what a layer looks at first there is
/// not to be taken for something of this volume.
const HEAD: u64 = 16 << 20;
/// What has to be typed to go on without others too.
const FIRST: &str = "hostftl serve --degraded";

/// What is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplaceSpec {
    /// The volume file.
    pub path: PathBuf,
    /// The device that goes: a path to it, its member number or its UUID.
    pub old: String,
    /// The device that comes; a file that does not exist is made, as large as is needed.
    pub new: String,
    /// Whether the new device may hold something. What is in use is refused all the same.
    pub force: bool,
    /// Whether nothing is written.
    pub rehearse: bool,
}

/// What was done, or would be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replaced {
    /// The device that went, with the member number that the new one has too.
    pub old: DeviceId,
    /// The new one; without a UUID while nothing is written.
    pub new: DeviceId,
    /// Whether the volume had to do without the old one already.
    pub was_lost: bool,
    /// Whether the new one has all that the old one had.
    pub copied: bool,
    /// Whether the old one is being copied to it: it takes its place when that is done.
    #[serde(default)]
    pub copying: bool,
    /// Whether it lacks something, which is made while the volume is served. A journal's device
    /// that was not copied is empty, and lacks nothing.
    pub lacks: bool,
    /// Whether the volume is served, and made what the new one lacks from then on.
    pub served: bool,
    /// What should be known.
    pub notes: Vec<String>,
}

/// Puts a device in the place of another of a volume that is not served, and that this process has
/// locked: `opened` is the volume file, and `config` its content. `full` is `spec` with the
/// complete names of the devices. Data that can't be rebuilt is copied: `tell` hears how many bytes
/// are, and of how many.
///
/// # Errors
/// When the volume misses others too, the old device has to be copied and can't be
/// read, or the new one stands in the way. Nothing was changed then.
pub(crate) fn replace(
    (spec, full): (&ReplaceSpec, &ReplaceSpec),
    mut config: Config,
    opened: &File,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Replaced, Error> {
    let wrong = |why: String| Error::Config { path: spec.path.clone(), why };
    let layer = config.layer_config().map_err(wrong)?;
    if config.is_memory() {
        return Err(wrong("is in memory: there is nothing to replace".into()));
    }
    let force = spec.force || config.pending.contains(&full.new);
    let came = interrupted::finish(&spec.path, &mut config, &layer, spec.rehearse)?;
    if let Some(new) = came.into_iter().find(|it| it.path == full.new) {
        return Ok(Replaced::finished(new, &full.old));
    }
    let spec = &ReplaceSpec { force, ..spec.clone() };
    let names = Names::read(&config);
    let index = usize::from(names.resolve(&full.old, 0).map_err(|error| error.at(&spec.path))?);
    let new = new_name(&config, index, &spec.new)?;
    let old = names.id(index as u8);
    let of = (&config, &layer, index);
    let Some((found, is_journal)) = without_old(spec, of)? else {
        return copied::copy(&Change { spec, index, old, new }, &mut config, layer, tell);
    };
    let was_lost = is_journal || found.unsaid >> index & 1 == 0;
    if found.superblock.gone >> index & 1 == 1 {
        let why = "was removed; `hostftl device add` takes another device in";
        return Err(wrong(format!("device {index} {why}")));
    }
    let needs_none = !is_journal && was_lost || found.superblock.spare >> index & 1 == 1;
    let found = if needs_none { found } else { not_needed(spec, of, (found, is_journal), opened)? };
    let is_good = !was_lost && open_member(&config.devices[index], Access::ReadOnly).is_ok();
    let healthy = is_good.then(|| format!("warning: device {index} ({}) is healthy", old.path));
    let mut taken = take((&spec.new, &new), &found, index, spec.force)?;
    let came = DeviceId { number: index as u8, uuid: String::new(), path: new };
    let mut replaced = Replaced {
        old,
        new: came,
        was_lost,
        copied: false,
        copying: false,
        lacks: !is_journal,
        served: false,
        notes: healthy.into_iter().collect(),
    };
    if spec.rehearse {
        return Ok(replaced);
    }
    let held = taken.held.take();
    replaced.notes.extend(held.map(|held| format!("{} held {held}", replaced.new.path)));
    let (device, warning) = put_in_place(&replaced, (found, taken), (config, layer), &spec.path)?;
    replaced.new.uuid = device.to_string();
    replaced.notes.extend(warning);
    Ok(replaced)
}

impl Replaced {
    /// The outcome of a change that a cut left behind, and that is finished now: `new` is in the
    /// place of `old`.
    fn finished(new: DeviceId, old: &str) -> Self {
        Replaced {
            old: DeviceId { number: new.number, uuid: String::new(), path: old.into() },
            new,
            was_lost: false,
            copied: false,
            copying: false,
            lacks: false,
            served: false,
            notes: vec!["a change that was cut off is finished".into()],
        }
    }
}

/// Makes the device that was taken the member that `replaced` names. Returns its UUID, and a
/// warning if the volume file could not be written at the end.
fn put_in_place(
    replaced: &Replaced,
    (found, taken): (Assembly, Taken),
    (mut config, layer): (Config, LayerConfig),
    path: &Path,
) -> Result<(Uuid, Option<String>), Error> {
    let Taken { device: taken, undo, .. } = taken;
    let (number, new) = (replaced.new.number, &replaced.new.path);
    let index = usize::from(number);
    let device_sectors = taken.bytes() / SECTOR as u64;
    let mut superblock = superblocks::replacement(&found.superblock, number, device_sectors);
    if !replaced.lacks {
        // A journal lacks nothing: no root says that it is needed.
        superblock.fresh = found.superblock.fresh;
    }
    let (lost, before) = (found.missing() & !(1 << index), found.superblock.members[index]);
    let mut layer = as_members(layer, found.missing(), &found.superblock);
    let (mut roster, mut devices) = seat(found);
    devices[index] = taken;
    (layer.members.missing, layer.members.fresh) = (lost, 0);
    let planned = plan(&layer, &infos(&devices))?;
    if planned.limits.exported != superblock.exported {
        return Err(device(new, "is not one on which the volume would be laid out as it is"));
    }
    config.announce_at(number, path, new).map_err(|error| error.at(path))?;
    let cleared = clear(&devices[index]);
    if let Err(error) = cleared.and_then(|()| Ok(describe(&devices[index], &superblock)?)) {
        config.publish_again(path).ok();
        return Err(error);
    }
    // Its superblock says that it is a member: from here on the change is only finished.
    undo.keep();
    roster.replace(number, Record { superblock, sound: [true; 2] });
    roster.settle(&devices, Standing::of_lost(lost))?;
    config.deadlines.remove(&replaced.old.path);
    config.offline.remove(&Uuid::from_bytes(before));
    config.devices[index].clone_from(new);
    Ok((Uuid::from_bytes(superblock.device), config.conclude(path)))
}

/// The others, where the volume goes on without the device that goes, and whether that is the
/// journal's; none where it is copied. A journal that is there is copied: it may be needed.
fn without_old(
    spec: &ReplaceSpec,
    (config, layer, index): (&Config, &LayerConfig, usize),
) -> Result<Option<(Assembly, bool)>, Error> {
    let found = match layer.tolerates() {
        0 if layer.log.journal => others(spec, config, layer, index).ok(),
        0 => None,
        _ => Some(others(spec, config, layer, index)?),
    };
    let Some(found) = found else { return Ok(None) };
    let is_journal = journal::bit_in(layer, &found.superblock) >> index & 1 == 1;
    let is_there = || open_member(&config.devices[index], Access::ReadOnly).is_ok();
    let copies = if is_journal { is_there() } else { layer.tolerates() == 0 };
    Ok((!copies).then_some((found, is_journal)))
}

/// The others again, when nothing of what the device has is needed that goes.
fn not_needed(
    spec: &ReplaceSpec,
    of: (&Config, &LayerConfig, usize),
    (found, is_journal): (Assembly, bool),
    opened: &File,
) -> Result<Assembly, Error> {
    let locked = opened.try_clone().map_err(file(&spec.path, "lock the volume file"))?;
    match is_journal {
        true => drop(recovered_without(spec, of, found, locked)?),
        false => refuse_if_needed(spec, of, found, locked)?,
    }
    let (config, layer, index) = of;
    others(spec, config, layer, index)
}

/// The full name of what comes in place `index`.
pub(crate) fn new_name(config: &Config, index: usize, asked: &str) -> Result<String, Error> {
    let new = modelled::full_name(asked)?;
    let mut others = config.devices.iter().enumerate().filter(|(at, _)| *at != index);
    match others.find(|(_, name)| is_same(name, &new) || storage::is_shared(name, &new)) {
        Some((at, _)) => Err(device(asked, format!("is device {at} of this volume already"))),
        None => Ok(new),
    }
}

/// The members but the one that goes, which must be all that belong and are needed.
fn others(
    spec: &ReplaceSpec,
    config: &Config,
    layer: &LayerConfig,
    index: usize,
) -> Result<Assembly, Error> {
    let mut names = config.devices.clone();
    names.remove(index);
    let found = gather_of(&spec.path, config, layer, &names)?;
    let away = Assembly { unsaid: found.unsaid & !(1 << index), ..found };
    if away.unsaid != 0 {
        return Err(refusal(&spec.path, &away, &config.devices, FIRST));
    }
    let unsaid = away.missing() & 1 << index & !away.superblock.missing;
    Ok(Assembly { unsaid, ..away })
}

/// Refuses what would be lost with a device that belongs still: others came, and what they lack yet
/// is made from all that are there. Whoever lacks something is found out by a recovery in memory,
/// without the device.
fn refuse_if_needed(
    spec: &ReplaceSpec,
    (config, layer, index): (&Config, &LayerConfig, usize),
    found: Assembly,
    locked: File,
) -> Result<(), Error> {
    let refused = |why: String| Error::Refused { path: spec.path.clone(), why };
    let name = &config.devices[index];
    let Superblock { out, missing, fresh, .. } = found.superblock;
    let judge = |lacking: u16| {
        let away = missing & !out | lacking | 1 << index;
        let others = (0..config.devices.len()).filter(|at| *at != index && lacking >> at & 1 == 1);
        let others: Vec<_> = others.map(|at| config.devices[at].as_str()).collect();
        match away.count_ones() <= layer.tolerates() {
            true => Ok(()),
            false => Err(refused(is_needed(name, &others.join(", ")))),
        }
    };
    judge(fresh)?;
    let lacking = recovered_without(spec, (config, layer, index), found, locked)?;
    judge(fresh | lacking)
}

/// Recovers the volume in memory without one of its devices; the others that lack something.
fn recovered_without(
    spec: &ReplaceSpec,
    (config, layer, index): (&Config, &LayerConfig, usize),
    found: Assembly,
    locked: File,
) -> Result<u16, Error> {
    let opened = (config.clone(), layer.clone());
    let volume = raise(&spec.path, opened, found, Access::Full, locked)?;
    let seen = inspect(volume, Data::None).map_err(|error| {
        let name = &config.devices[index];
        let why = format!("without {name} it can't be recovered, so nothing was changed: {error}");
        Error::Refused { path: spec.path.clone(), why }
    })?;
    Ok(seen.driver.layer().gauges().map_or(0, |gauges| gauges.lacking))
}

fn is_needed(name: &str, others: &str) -> String {
    format!(
        "{name} is needed: {others} came later, and what it lacks is made from the others. \
         `hostftl serve` makes it, `hostftl wait` waits for that; then replace {name}. If {name} \
         never works again, `hostftl serve --degraded` gives up what is lost with it, and then it \
         can be replaced"
    )
}

/// A device that comes in place `index`, which the user calls by the first name, open for this
/// process alone. Of a larger one only as much is used as of the one before.
fn take(names: (&str, &str), found: &Assembly, index: usize, force: bool) -> Result<Taken, Error> {
    let needed = found.superblock.lengths[index];
    take_with_room(names, &Beside::of(there(&found.members)), needed, force)
}

/// The devices of members that are there.
pub(crate) fn there(members: &[Option<Member>]) -> impl Iterator<Item = &Device> {
    members.iter().flatten().map(|member| &member.device)
}

/// A device that comes beside the others, which the user calls by the first name, open for this
/// process alone: all its room is used, but of zoned ones only as much as the others have. A file
/// that does not exist is made.
pub(crate) fn take_whole(
    names: (&str, &str),
    beside: &Beside,
    force: bool,
) -> Result<Taken, Error> {
    if let Some(needed) = beside.needed() {
        return take_with_room(names, beside, needed, force);
    }
    take_room(names, beside, force, |room| match room {
        0 => Err("has no room for data".into()),
        room => Ok(room),
    })
}

/// The same, of which `needed` sectors are used; a file is made at least so long.
pub(crate) fn take_with_room(
    names: (&str, &str),
    beside: &Beside,
    needed: u64,
    force: bool,
) -> Result<Taken, Error> {
    let beside = beside.with_room(needed + 2 * RESERVE);
    take_room(names, &beside, force, |room| match room < needed {
        false => Ok(needed),
        true => {
            let (room, needed) = (room * SECTOR as u64, needed * SECTOR as u64);
            Err(format!("has room for {room} bytes of data, and the volume needs {needed}"))
        }
    })
}

/// The same; `used` says how many of the sectors of data that it has room for.
fn take_room(
    (asked, name): (&str, &str),
    beside: &Beside,
    force: bool,
    used: impl FnOnce(u64) -> Result<u64, String>,
) -> Result<Taken, Error> {
    let mut taken = take_device(asked, name, beside, force)?;
    let (start, room) = data_window(taken.device.bytes() / SECTOR as u64);
    let used = used(room).map_err(|why| device(name, why))?;
    claims::refuse_taken(&taken.device)?;
    taken.device.set_window(start, used);
    Ok(taken)
}

/// Writes what a device says of itself.
///
/// # Errors
/// When it can't be written.
pub(crate) fn describe(one: &Device, of: &Superblock) -> Result<(), IoError> {
    claims::make(one, of)?;
    write_ends(one, of.device_sectors, |at| of.emit(at))
}

/// A device on which nothing is left. What is known of the zones of one is what was found when it
/// was opened: so it is opened again.
pub(crate) fn cleared(taken: Device) -> Result<Device, Error> {
    clear(&taken)?;
    if !taken.is_zoned() {
        return Ok(taken);
    }
    let (name, sectors) = (taken.name().to_owned(), taken.info().sectors);
    drop(taken);
    let mut again = open_fresh(&name)?;
    again.set_window(data_window(again.bytes() / SECTOR as u64).0, sectors);
    Ok(again)
}

/// Leaves nothing on a device that could be taken for something of the volume.
pub(crate) fn clear(taken: &Device) -> Result<(), Error> {
    let sectors = taken.bytes() / SECTOR as u64;
    write_ends(taken, sectors, |_| Page::default())?;
    taken.clear_window()?;
    let (start, len) = data_window(sectors);
    if taken.is_zoned() {
        return Ok(());
    }
    let pages = len.min(HEAD / SECTOR as u64) / u64::from(SECTORS_PER_BLOCK);
    for page in 0..pages {
        taken.write_page(start + page * u64::from(SECTORS_PER_BLOCK), &Page::default())?;
    }
    Ok(taken.sync()?)
}
