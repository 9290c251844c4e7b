//! Parts of a zoned device: each volume on one of them has a claim there, so that whoever wants
//! another part is told whose zones those are, whether that volume is served or not.

use std::ops::Range;

use hostftl_core::{Page, SECTOR};
use hostftl_format::claim::{Claim, places};
use hostftl_format::superblock::Superblock;
use hostftl_io::{Device, IoError, Taken};
use uuid::Uuid;

use crate::util::error::{Error, device};

/// Whether a zoned device that is to become a member has zones of another volume than one that
/// lies on exactly these.
///
/// # Errors
/// When it has; the message names both. Nothing makes such a device free but `hostftl delete`.
pub(crate) fn refuse_taken(one: &Device) -> Result<(), Error> {
    let own = one.own_zones();
    for Taken { claim, is_part } in one.taken()? {
        let theirs = claim.first..claim.first + claim.count;
        let is_free = match &own {
            Some(own) => is_part && *own == theirs || !claim.overlaps(own.start, own.len() as u32),
            None => !is_part,
        };
        if !is_free {
            let ours = own.map_or("all of them".into(), |own| zones(&own));
            let why = format!(
                "{} of it are those of {}, and this would take {ours}: choose other zones, or \
                 `hostftl delete` that volume",
                zones(&theirs),
                volume(&claim)
            );
            return Err(device(one.name(), why));
        }
    }
    Ok(())
}

/// Whether a part is the one that its claim says: one that begins at the same zone finds the
/// superblock of another length.
///
/// # Errors
/// When it is another.
pub(crate) fn verify(one: &Device) -> Result<(), Error> {
    let Some(own) = one.own_zones() else { return Ok(()) };
    let at = places(one.bytes() / SECTOR as u64)[0];
    let Some(claim) = Claim::parse(&one.read_page(at)?) else { return Ok(()) };
    let theirs = claim.first..claim.first + claim.count;
    if theirs == own {
        return Ok(());
    }
    let why = format!("{} has {} of the device; name these", volume(&claim), zones(&theirs));
    Err(device(one.name(), why))
}

/// Writes the claim of a volume whose superblock is `of`, durably; nothing on all of a device.
///
/// # Errors
/// When the device can't be written.
pub(crate) fn make(one: &Device, of: &Superblock) -> Result<(), IoError> {
    let Some(own) = one.own_zones() else { return Ok(()) };
    let (volume, label) = (of.volume, of.label);
    let claim = Claim { volume, label, first: own.start, count: own.len() as u32 };
    write(one, &claim.emit())
}

/// Leaves no claim on a part.
///
/// # Errors
/// When the device can't be written.
pub(crate) fn clear(one: &Device) -> Result<(), IoError> {
    if one.own_zones().is_some() { write(one, &Page::default()) } else { Ok(()) }
}

fn write(one: &Device, page: &Page) -> Result<(), IoError> {
    for at in places(one.bytes() / SECTOR as u64) {
        one.write_page(at, page)?;
        one.sync()?;
    }
    Ok(())
}

fn zones(zones: &Range<u32>) -> String {
    format!("zones {} to {}", zones.start, zones.end - 1)
}

/// What a volume is called, for people.
fn volume(claim: &Claim) -> String {
    let uuid = Uuid::from_bytes(claim.volume);
    match claim.label.as_str() {
        "" => format!("volume {uuid}"),
        label => format!("volume {label} ({uuid})"),
    }
}
