//! Removal of a volume from its devices.
//!
//! The order of the steps makes the removal repeatable. Superblocks of all devices are cleared
//! first, so that no volume is found over cleared data. The data follows, so that it does not show
//! through a later volume. The claim on a part is cleared once its zones are free, and the volume
//! file is removed last.

use std::fs;
use std::path::Path;

use hostftl_core::{Page, SECTOR};
use hostftl_format::claim::{self, Claim};
use hostftl_format::session::{self, Mark};
use hostftl_format::superblock::{SuperFault, Superblock, data_window, is_ours, places};
use hostftl_io::{Access, Device, IoError};
use uuid::Uuid;

use crate::admin::create::zero;
use crate::metadata::claims;
use crate::metadata::config::Config;
use crate::metadata::config::MISSING;
use crate::metadata::modelled;
use crate::metadata::roster::clear_ends;
use crate::open::session::ack_log;
use crate::open::stack::open_member;
use crate::open::volume::lock;
use crate::running::scrubbing;
use crate::util::error::{Error, device, file};
use crate::util::events;
use crate::util::private::{sync_folder, target};
use crate::util::volume_lock::VolumeLock;

/// Removes the volume whose file is `path` from its devices, and removes the file. Zones become
/// free, and other devices read zeros: `progress` gets the number of cleared bytes of a device and
/// their total. Without `force` the function only checks that the removal is possible. Returns the
/// configuration of the volume.
///
/// # Errors
/// When the volume is in use, or a device is missing or holds another volume; then nothing is
/// changed. When the process is to end before everything is cleared; the same call resumes the
/// removal.
pub fn delete(
    path: &Path,
    force: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Config, Error> {
    let config = Config::load(path)?;
    let _lock = lock(path)?;
    let _volume_lock = VolumeLock::take(config.uuid, path)?;
    let names: &[String] = if config.is_memory() { &[] } else { &config.devices };
    let there = names.iter().filter(|name| *name != MISSING);
    let devices = there.map(|name| modelled::open_as(name, Access::Full));
    let mut devices = devices.collect::<Result<Vec<_>, _>>()?;
    // After an interrupted change a pending device may be a member, or still hold other data.
    let pending = config.pending.iter().filter_map(|name| open_member(name, Access::Full).ok());
    let ours = pending.filter(|it| it.superblock.volume == *config.uuid.as_bytes());
    devices.extend(ours.map(|it| it.device));
    // Another device may have the path by now: a device without a mark of this volume is not
    // touched.
    let mut ours = Vec::new();
    for one in devices {
        if belongs_to(&one, config.uuid)? {
            ours.push(one);
        }
    }
    // All checks are done by now, so a rehearsal finds each error.
    if !force {
        return Ok(config);
    }
    // All superblocks before any data: an interruption must not leave a volume with cleared data.
    ours.iter().try_for_each(|one| forget_member(one, config.uuid))?;
    ours.iter_mut().try_for_each(|one| free(one, progress))?;
    scrubbing::forget(path);
    events::forget(path);
    ack_log::forget(config.uuid);
    let target = target(path);
    // Last, because the same command resumes an interrupted removal by this file.
    fs::remove_file(&target).map_err(file(path, "remove the volume file"))?;
    sync_folder(&target).map_err(file(path, "make its removal durable"))?;
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        // The symbolic link is dangling now.
        fs::remove_file(path).ok();
    }
    Ok(config)
}

/// Returns whether a device is marked as a member of this volume, by a superblock or by the mark of
/// an interrupted `delete`.
fn belongs_to(one: &Device, volume: Uuid) -> Result<bool, Error> {
    let sectors = one.bytes() / SECTOR as u64;
    let mut others = Vec::new();
    for at in places(sectors) {
        let page = one.read_page(at)?;
        others.extend(match Superblock::parse(&page, at) {
            Ok(found) => Some(found.volume),
            Err(SuperFault::Foreign) => None,
            // Damaged, or of another version: the header still has the UUID of the volume.
            Err(_) => is_ours(&page).then(|| page.0[8..24].try_into().expect("16 bytes")),
        });
    }
    // A part that was claimed and never got a superblock belongs to the volume too.
    if one.own_zones().is_some() {
        let claim = Claim::parse(&one.read_page(claim::places(sectors)[0])?);
        others.extend(claim.map(|claim| claim.volume));
    }
    let mut is_ours = !others.is_empty();
    for at in session::PLACES {
        is_ours |= Mark::parse(&one.read_page(at)?, volume.into_bytes(), at).is_ok();
    }
    // A superblock of another volume outweighs a session mark of this one: the device was reused.
    match others.into_iter().map(Uuid::from_bytes).find(|other| *other != volume) {
        Some(other) => Err(device(one.name(), format!("holds volume {other}, not {volume}"))),
        None => Ok(is_ours),
    }
}

/// Clears the superblocks of a device and leaves only a session mark, which marks the device as not
/// yet cleared.
fn forget_member(one: &Device, volume: Uuid) -> Result<(), IoError> {
    let (number, run, generation, plain) = (0, 0, 1, 1);
    let (serving, through, beyond, machine, boot) = (false, true, false, [0; 16], [0; 16]);
    let mark = Mark { number, run, serving, through, beyond, generation, plain, machine, boot };
    one.write_page(session::mark_sector(number), &mark.emit(volume.into_bytes()))?;
    one.sync()?;
    // After the durable mark, which identifies the device without its superblocks.
    clear_ends(one)?;
    one.sync()
}

/// Clears the data of clients on a device, and then its marks.
fn free(one: &mut Device, progress: &mut dyn FnMut(u64, u64)) -> Result<(), IoError> {
    if !one.is_zoned() {
        let (start, len) = data_window(one.bytes() / SECTOR as u64);
        one.set_window(start, len);
    }
    zero(one, progress)?;
    // After the data: the mark shows a resumed removal that the device is not cleared yet.
    session::PLACES.iter().try_for_each(|at| one.write_page(*at, &Page::default()))?;
    one.sync()?;
    if one.is_zoned() {
        claims::clear(one)?;
        one.free_reserves()?;
    }
    Ok(())
}
