//! Claims on parts of a zoned device. Each volume has one on its part, so that a refused request
//! for overlapping zones can name their owner, whether that volume is served or not.

use std::ops::Range;

use hostftl_core::{Page, SECTOR};
use hostftl_format::claim::{Claim, places};
use hostftl_format::superblock::Superblock;
use hostftl_io::{ClaimedZones, Device, IoError};
use uuid::Uuid;

use crate::util::error::{Error, device};

/// Refuses a zoned device as a new member if it holds zones of another volume, unless that volume
/// is on exactly the same zones.
pub(crate) fn refuse_taken(one: &Device) -> Result<(), Error> {
    let own = one.own_zones();
    for ClaimedZones { claim, is_part } in one.taken()? {
        let theirs = claim.first..claim.first + claim.count;
        let is_free = match &own {
            Some(own) => is_part && *own == theirs || !claim.overlaps(own.start, own.len() as u32),
            None => !is_part,
        };
        if !is_free {
            let ours = own.map_or("all of them".into(), |own| zones(&own));
            let why = format!(
                "{} belong to {}, and this volume would use {ours}; choose other zones, or \
                 `hostftl delete` that volume",
                zones(&theirs),
                volume(&claim)
            );
            return Err(device(one.name(), why));
        }
    }
    Ok(())
}

/// Checks that a part has the range of its claim. Two parts that start at the same zone but differ
/// in length would find each other's superblock.
pub(crate) fn verify(one: &Device) -> Result<(), Error> {
    let Some(own) = one.own_zones() else { return Ok(()) };
    let at = places(one.bytes() / SECTOR as u64)[0];
    let Some(claim) = Claim::parse(&one.read_page(at)?) else { return Ok(()) };
    let theirs = claim.first..claim.first + claim.count;
    if theirs == own {
        return Ok(());
    }
    let why = format!("{} has {} of the device; give these", volume(&claim), zones(&theirs));
    Err(device(one.name(), why))
}

/// Durably writes the claim of the volume with this superblock. Whole devices have no claim.
pub(crate) fn make(one: &Device, superblock: &Superblock) -> Result<(), IoError> {
    let Some(own) = one.own_zones() else { return Ok(()) };
    let (volume, label) = (superblock.volume, superblock.label);
    let claim = Claim { volume, label, first: own.start, count: own.len() as u32 };
    write(one, &claim.emit())
}

/// Clears the claim on a part.
pub(crate) fn clear(one: &Device) -> Result<(), IoError> {
    if one.own_zones().is_some() { write(one, &Page::default()) } else { Ok(()) }
}

fn write(one: &Device, page: &Page) -> Result<(), IoError> {
    for at in places(one.bytes() / SECTOR as u64) {
        one.write_page(at, page)?;
        // One copy at a time: a power cut damages at most one.
        one.sync()?;
    }
    Ok(())
}

fn zones(zones: &Range<u32>) -> String {
    format!("zones {} to {}", zones.start, zones.end - 1)
}

/// Returns the label and UUID of a volume for messages.
fn volume(claim: &Claim) -> String {
    let uuid = Uuid::from_bytes(claim.volume);
    match claim.label.as_str() {
        "" => format!("volume {uuid}"),
        label => format!("volume {label} ({uuid})"),
    }
}
