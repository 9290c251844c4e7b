//! Test of superblocks that are not written yet: recovers the volume with them in memory.

use std::fs::File;
use std::path::Path;

use hostftl_core::{DeviceInfo, DeviceSet};
use hostftl_format::log::Root;
use hostftl_io::{Access, Device};
use hostftl_layers::LayerConfig;

use super::inspection::newest_root;
use crate::metadata::config::Config;
use crate::metadata::config::MISSING;
use crate::metadata::journal;
use crate::open::inspect::{Data, inspect};
use crate::open::machine::as_members;
use crate::open::refusal::tier;
use crate::open::stack::{Assembly, Member, order};
use crate::open::volume::{raise, redundancy, verify};
use crate::util::counted::counted;
use crate::util::error::Error;

/// Result of a rehearsal.
pub(super) struct Rehearsal {
    /// Devices in member order.
    pub devices: Vec<Device>,
    /// Bytes of data that were read.
    pub sample_bytes: u64,
    /// Notes for the operator.
    pub notes: Vec<String>,
}

/// Recovers the volume over `members` in memory, and reads a sample of its data.
pub(super) fn rehearse(
    members: Vec<Member>,
    (path, config, lock): (&Path, Option<Config>, File),
    force: bool,
) -> Result<Rehearsal, Error> {
    let refused = |why: String| Error::Refused { path: path.into(), why };
    let newest = members.iter().map(|it| it.superblock).max_by_key(|it| it.generation);
    let newest = newest.expect("a device has no valid superblock");
    let config = config.unwrap_or_else(|| {
        let name = |index: u8| {
            let member = members.iter().find(|it| it.superblock.index == index);
            member.map_or(MISSING.into(), |it| it.device.name().into())
        };
        Config::from_superblock(&newest, (0..newest.count).map(name).collect())
    });
    let layer = config.layer_config().map_err(refused)?;
    let found = order(members, Vec::new(), redundancy(&layer))?;
    verify(path, &config, &found)?;
    if layer.kind.registration().promises.knows_lost && !found.missing().is_empty() {
        return Err(tier::refusal(&found));
    }
    // Before the recovery in memory, so that the error names the cause.
    ask_roots(&layer, &found).map_err(refused)?;
    let mut notes: Vec<String> =
        found.excluded.iter().map(|why| format!("left out: {why}")).collect();
    let volume = raise(path, (config, layer), found, Access::Full, lock)?;
    let seen = inspect(volume, Data::Sample).map_err(|error| {
        refused(format!(
            "cannot recover the volume with these superblocks: {error}; nothing was written"
        ))
    })?;
    let mut problems = seen.problems;
    let read = seen.data.expect("a sample was read");
    // With devices in the wrong order, parity still yields the data of some stripes.
    if read.mended > 0 {
        let reads = counted(read.mended, "read");
        problems
            .push(format!("{reads} of the sample needed parity; check the order of the devices"));
    }
    if let Some(first) = problems.first().filter(|_| !force) {
        let why = format!(
            "data would be damaged with these superblocks: {first}; nothing was written, --force \
             overrides"
        );
        return Err(refused(why));
    }
    notes.extend(problems);
    Ok(Rehearsal { devices: seen.driver.into_devices()?, sample_bytes: read.read_bytes, notes })
}

/// Compares the backup with the newest root: devices may have been lost or added since the backup.
fn ask_roots(layer: &LayerConfig, found: &Assembly) -> Result<(), String> {
    let superblock = &found.superblock;
    let Some(roots) = layer.kind.registration().promises.roots else { return Ok(()) };
    let info = |(member, length): (&Option<Member>, u64)| match member {
        Some(member) => member.device.info(),
        None => DeviceInfo::block(length, 1),
    };
    let infos: Vec<DeviceInfo> = found.members.iter().zip(superblock.lengths).map(info).collect();
    let missing = found.missing();
    // The roots of zoned devices have no fixed location; only recovery finds them.
    let Ok(places) = (roots.at)(&as_members(layer.clone(), missing, superblock), &infos) else {
        return Ok(());
    };
    let there = found.members.iter().take(places.devices.into()).flatten();
    let found = there.filter_map(|it| {
        newest_root(&it.device, &places, (it.superblock.data_start, superblock.volume))
    });
    let Some(Root { lost, known, .. }) = found.max_by_key(|root| root.number) else {
        return Ok(());
    };
    let since = "after the backup";
    let journal = journal::recorded(layer, superblock);
    let known_lost =
        missing | DeviceSet::from_bits(superblock.missing | superblock.fresh) | journal;
    if let Some(index) = (DeviceSet::from_bits(lost) - known_lost).first() {
        return Err(format!(
            "the newest root records that device {index} was lost {since}; it is stale, give \
             `{MISSING}` in its place"
        ));
    }
    if !DeviceSet::from_bits(known).is_within(DeviceSet::first_n(superblock.count.into())) {
        return Err(format!(
            "the newest root has a device that was added {since}; use a newer \
                            backup"
        ));
    }
    Ok(())
}
