//! Changes of the members of a volume: adding, replacing and taking back devices.
//!
//! The process that serves the volume makes them. Without one, this process opens the volume
//! without clients and makes them in the same way. It recovers the volume in memory first, so that
//! nothing is written if the change is refused.

use std::path::Path;
use std::time::Duration;

use hostftl_core::{DeviceSet, SECTOR};
use hostftl_io::cancel;

use crate::admin::control::client;
use crate::admin::operate::operate_here;
use crate::admin::request::{Admin, AdminRequest, Outcome};
use crate::change::add::{AddSpec, Added};
use crate::change::changer::is_needed;
use crate::change::replace::{ReplaceSpec, Replaced};
use crate::metadata::config::Config;
use crate::metadata::modelled;
use crate::open::gather::OpenOptions;
use crate::open::names::{DeviceId, complete};
use crate::open::options::StartOptions;
use crate::open::volume::{Gathered, find};
use crate::running::copying::Copying;
use crate::util::error::{AdminError, Error};

/// Interval of the progress reports of a copy.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Note on an interrupted change that was finished.
const FINISHED: &str = "a change that was cut off is finished";

/// Adds devices to a volume.
///
/// # Errors
/// When the layer does not support it, a member is missing, or a new device can't be used. Nothing
/// was changed then.
pub fn add(spec: &AddSpec) -> Result<Added, Error> {
    let config = Config::load(&spec.path)?;
    client::refuse_elsewhere(&spec.path, config.uuid)?;
    // The process that serves it may have another working directory.
    let new = spec.new.iter().map(|name| modelled::full_name(name)).collect::<Result<_, _>>()?;
    let full = AddSpec { new, ..spec.clone() };
    if let Some(done) = client::add(config.uuid, &full) {
        return done.map_err(|error| error.at(&spec.path));
    }
    let found = find(&spec.path)?;
    let come = found.come();
    // The superblocks made these devices members before the interruption, so only the volume file
    // remains.
    if !come.is_empty() && come.iter().map(|it| &it.path).eq(&full.new) {
        let bytes = found.exported() * SECTOR as u64;
        finish(found, spec.rehearse)?;
        let notes = vec![FINISHED.into()];
        return Ok(Added { devices: come, exported: (bytes, bytes), served: false, notes });
    }
    let force = spec.force || full.new.iter().all(|name| found.pending.contains(name));
    let act = |admin: &Admin, rehearse| admin.add(&AddSpec { force, rehearse, ..spec.clone() });
    let added = here(found, (&spec.path, DeviceSet::EMPTY), spec.rehearse, act)?;
    Ok(Added { served: false, ..added })
}

/// Replaces a device. When the volume is not served and the old device is copied, `progress` gets
/// the number of copied bytes and their total.
///
/// # Errors
/// When another member is missing, the old device has to be copied and can't be read, or the new
/// one can't be used. Nothing was changed then.
pub fn replace(spec: &ReplaceSpec, progress: &mut dyn FnMut(u64, u64)) -> Result<Replaced, Error> {
    let config = Config::load(&spec.path)?;
    client::refuse_elsewhere(&spec.path, config.uuid)?;
    // Full names, because the serving process may have another working directory.
    let (old, new) = (complete(&spec.old, &config)?, modelled::full_name(&spec.new)?);
    let full = ReplaceSpec { old, new, ..spec.clone() };
    if let Some(done) = client::replace(config.uuid, &full) {
        return done.map_err(|error| error.at(&spec.path));
    }
    let found = find(&spec.path)?;
    if let Some(new) = found.come().into_iter().find(|it| it.path == full.new) {
        finish(found, spec.rehearse)?;
        let old = DeviceId { number: new.number, uuid: String::new(), path: full.old };
        let notes = vec![FINISHED.into()];
        return Ok(Replaced { old, new, notes, ..Replaced::default() });
    }
    // The interrupted command may have written to it with consent.
    let force = spec.force || found.pending.contains(&full.new);
    let index = found.resolve(&full.old)?;
    let act = |admin: &Admin, rehearse| {
        // By number: after the first open the path may no longer lead to the member.
        let old = index.to_string();
        let spec = ReplaceSpec { old, force, rehearse, ..spec.clone() };
        let begun = admin.begin_to_replace(&spec)?;
        let (replaced, Some(copying)) = begun else { return Ok(begun.0) };
        let copied = wait(&copying, progress)?;
        Ok(Replaced { copied, copying: false, lacks: !copied, ..replaced })
    };
    let replaced = here(found, (&spec.path, DeviceSet::single(index)), spec.rehearse, act)?;
    Ok(Replaced { served: false, ..replaced })
}

/// Result of taking a device back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The device.
    pub device: DeviceId,
    /// Whether it was excluded; otherwise it was a member already.
    pub is_new: bool,
    /// Whether the volume is served, which starts the rebuild of its missing data.
    pub served: bool,
    /// Notes for the operator.
    pub notes: Vec<String>,
}

impl Returned {
    fn from_outcome(done: Outcome, served: bool) -> Self {
        let Outcome { is_new, device, notes } = done;
        Returned { device: device.unwrap_or_default(), is_new, served, notes }
    }
}

/// Takes back an excluded device.
///
/// # Errors
/// When another member is missing, or the device is not the one that was lost. It stays excluded
/// then.
pub fn online(path: &Path, wanted: &str) -> Result<Returned, Error> {
    let config = Config::load(path)?;
    client::refuse_elsewhere(path, config.uuid)?;
    let wanted = complete(wanted, &config)?;
    if let Some(done) = client::online(config.uuid, &wanted) {
        return done.map(|done| Returned::from_outcome(done, true)).map_err(|error| error.at(path));
    }
    let (running, done) = operate_here(path, &AdminRequest::Online(wanted))?;
    running.stop()?;
    Ok(Returned::from_outcome(done, false))
}

/// Durably finishes an interrupted change, except in a rehearsal.
fn finish(found: Gathered, rehearses: bool) -> Result<(), Error> {
    if rehearses {
        return Ok(());
    }
    let volume = found.open(DeviceSet::EMPTY, &OpenOptions::default())?;
    volume.start(&StartOptions::default())?.0.stop().map(drop)
}

/// Changes the members of a volume that is not served: rehearses the change in memory and then,
/// unless `is_rehearsal` is set, makes it. The members of the set `replaced` may be missing.
fn here<T>(
    found: Gathered,
    (path, replaced): (&Path, DeviceSet),
    is_rehearsal: bool,
    mut act: impl FnMut(&Admin, bool) -> Result<T, AdminError>,
) -> Result<T, Error> {
    let options = OpenOptions::default();
    let missing = replaced.iter().find(|at| found.is_missing(*at));
    // Determined now, because opening consumes the devices.
    let missing = missing.map(|index| found.incomplete(index));
    let rehearsal = found.open(replaced, &options)?.rehearse().map_err(|error| match missing {
        None => error,
        Some((name, others)) if others.is_empty() => Error::Refused {
            path: path.into(),
            why: format!("cannot recover without {name}: {error}; nothing was changed"),
        },
        Some((name, others)) => {
            Error::Refused { path: path.into(), why: is_needed(&name, &others) }
        }
    })?;
    let rehearsed = act(rehearsal.admin(), true).map_err(|error| error.at(path))?;
    // The rehearsal holds the locks of the volume.
    drop(rehearsal);
    if is_rehearsal {
        return Ok(rehearsed);
    }
    let volume = find(path)?.open(replaced, &options)?;
    let (running, _) = volume.start(&StartOptions::default())?;
    let done = act(running.admin(), false);
    // Stop even if the change failed; its error takes precedence.
    let stopped = running.stop();
    let done = done.map_err(|error| error.at(path))?;
    stopped.map(|_| done)
}

/// Waits for a copy, and cancels it when this process is to end. Returns whether the new device has
/// all data.
fn wait(copying: &Copying, progress: &mut dyn FnMut(u64, u64)) -> Result<bool, AdminError> {
    let mut reported = 0;
    loop {
        let outcome = copying.wait(CHECK_INTERVAL);
        let (done, all) = copying.progress();
        if done > reported {
            reported = done;
            progress(done, all);
        }
        let interrupted = cancel::check(&copying.new);
        // The new device may take over nevertheless, so the outcome decides.
        if interrupted.is_err() {
            copying.cancel();
        }
        match outcome {
            None => {}
            // The cancellation caused this error: report the signal instead.
            Some(Err(_)) if interrupted.is_err() => interrupted?,
            Some(outcome) => return outcome,
        }
    }
}
