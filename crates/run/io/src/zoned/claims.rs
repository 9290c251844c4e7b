//! Owners of the zones of a device: the claims of parts, and a volume on the whole device.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use hostftl_core::{Page, SECTOR};
use hostftl_format::claim::{self, Claim};
use hostftl_format::superblock::Superblock;

use super::{PointerStorage, RESERVE_BYTES, Zoned, kernel};

/// Zones that belong to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedZones {
    /// Range of zones, and the volume.
    pub claim: Claim,
    /// Whether the zones are a part of the device, not all of it.
    pub is_part: bool,
}

impl Zoned {
    /// Lists the owned zones of this device, or of the device to which this part belongs, each
    /// once.
    pub(crate) fn taken(&self, file: &File) -> io::Result<Vec<ClaimedZones>> {
        let mut found = match self.pointer_storage {
            PointerStorage::Memory => Vec::new(),
            PointerStorage::Table(_) => self.claims_in_file(file)?,
            PointerStorage::Kernel => claims_in_zones(file)?,
        };
        // A part has a claim at both ends.
        let key = |taken: &ClaimedZones| (taken.claim.first, taken.claim.count, taken.claim.volume);
        found.sort_by_key(key);
        found.dedup();
        Ok(found)
    }

    /// Reads the claims in a file. They are at a fixed offset from the start of a part's first
    /// zone.
    fn claims_in_file(&self, file: &File) -> io::Result<Vec<ClaimedZones>> {
        let (all, _) = Zoned::all(file, false)?;
        let read = |at: u64| -> io::Result<Page> {
            let mut page = Page::default();
            file.read_exact_at(&mut page.0, at)?;
            Ok(page)
        };
        let mut found = Vec::from_iter(whole(&read(self.first - RESERVE_BYTES)?, 0, all.count));
        // The page of the last zone is in the reserve after the zones, and not beyond it.
        for zone in 0..all.count {
            let zone_at = self.first + u64::from(zone) * self.stride;
            let page = read(zone_at + claim::places(0)[0] * SECTOR as u64)?;
            found.extend(part(&page).filter(|taken| taken.claim.first == zone));
        }
        Ok(found)
    }
}

/// Reads the claims on a block device, which are among the pages of kept zones. Pages without a
/// claim belong to a volume on the whole device, whose superblocks may also be in conventional
/// zones.
fn claims_in_zones(file: &File) -> io::Result<Vec<ClaimedZones>> {
    let (all, _) = kernel::all(file)?;
    let mut found = Vec::new();
    for pages in kernel::pages(file)? {
        let own: Vec<_> = pages.values().filter_map(|page| part(page)).collect();
        let by_volume = pages.iter().filter_map(|(sector, page)| whole(page, *sector, all.count));
        found.extend(if own.is_empty() { by_volume.collect() } else { own });
    }
    let mut first = Page::default();
    file.read_exact_at(&mut first.0, 0)?;
    found.extend(whole(&first, 0, all.count));
    Ok(found)
}

fn part(page: &Page) -> Option<ClaimedZones> {
    Claim::parse(page).map(|claim| ClaimedZones { claim, is_part: true })
}

/// Returns the zones of the superblock at `sector`, if it is one of a volume on all `count` zones.
fn whole(page: &Page, sector: u64, count: u32) -> Option<ClaimedZones> {
    let Superblock { volume, label, .. } = Superblock::parse(page, sector).ok()?;
    let claim = Claim { volume, label, first: 0, count };
    Some(ClaimedZones { claim, is_part: false })
}
