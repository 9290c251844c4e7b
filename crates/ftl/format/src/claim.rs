//! Claim of a volume on a part of a zoned device: the zones that the volume uses.
//!
//! A divided device has a claim at both ends of each part, next to the superblocks. It shows other
//! volumes which zones are in use, and their owner. The page has the common header with the
//! volume's UUID; the address in its checksum is the number of the first zone.
//!
//! | bytes | field |
//! |---|---|
//! | 32..36 | version |
//! | 36..40 | the first zone, in the numbers of the device |
//! | 40..44 | zones |
//! | 44..108 | label of the volume, UTF-8, padded with zeros |

use hostftl_core::{Page, SECTORS_PER_BLOCK};

use crate::letters::is_unseen;
use crate::page::{self, HEADER, Stamp, put_u32, u32_at};
use crate::superblock::{LABEL_BYTES, RESERVE, Text};

/// Version of the layout.
pub const VERSION: u32 = 1;
const KIND: [u8; 4] = *b"ZCLM";
/// Start of the label.
const LABEL: usize = HEADER + 12;

/// Zones of a volume, with the name of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// UUID of the volume.
    pub volume: [u8; 16],
    /// Label of the volume.
    pub label: Text<LABEL_BYTES>,
    /// First zone.
    pub first: u32,
    /// Number of zones.
    pub count: u32,
}

/// Returns the sectors of the two copies on a part with `device_sectors` visible sectors: the last
/// page of the first reserve, and the first page of the second.
pub fn places(device_sectors: u64) -> [u64; 2] {
    [RESERVE - u64::from(SECTORS_PER_BLOCK), device_sectors.saturating_sub(RESERVE)]
}

impl Claim {
    /// Returns the page, which is the same at both places.
    pub fn emit(&self) -> Page {
        let mut page = Page::default();
        for (index, word) in [VERSION, self.first, self.count].into_iter().enumerate() {
            put_u32(&mut page, HEADER + 4 * index, word);
        }
        page.0[LABEL..LABEL + LABEL_BYTES].copy_from_slice(&self.label.bytes());
        page::seal(&mut page, Stamp { kind: KIND, uuid: self.volume, at: self.first.into() }, 0);
        page
    }

    /// Parses a page. Returns `None` if it is not a claim, or damaged.
    pub fn parse(page: &Page) -> Option<Self> {
        let volume: [u8; 16] = page.0[8..24].try_into().expect("16 bytes");
        let [version, first, count] = [0, 4, 8].map(|at| u32_at(page, HEADER + at));
        page::open(page, Stamp { kind: KIND, uuid: volume, at: first.into() }).ok()?;
        let label = Text::parse(&page.0[LABEL..LABEL + LABEL_BYTES])?;
        let is_there = count > 0 && first.checked_add(count).is_some();
        let is_seen = !label.as_str().chars().any(is_unseen);
        (version == VERSION && is_there && is_seen).then_some(Claim { volume, label, first, count })
    }

    /// Returns whether the range of zones from `first` overlaps this one.
    pub fn overlaps(&self, first: u32, count: u32) -> bool {
        let end = |first: u32, count: u32| u64::from(first) + u64::from(count);
        u64::from(self.first) < end(first, count) && u64::from(first) < end(self.first, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONES: (u32, u32) = (16, 8);

    fn claim() -> Claim {
        let label = Text::new("left").unwrap();
        Claim { volume: [7; 16], label, first: ZONES.0, count: ZONES.1 }
    }

    #[test]
    fn a_claim_round_trips_and_damage_is_detected() {
        let mut page = claim().emit();
        assert_eq!(Claim::parse(&page), Some(claim()));
        page.0[50] ^= 1;
        assert_eq!(Claim::parse(&page), None);
        assert_eq!(Claim::parse(&Page::default()), None);
        for (first, count) in [(0, 0), (u32::MAX, 1)] {
            assert_eq!(Claim::parse(&Claim { first, count, ..claim() }.emit()), None);
        }
    }

    #[test]
    fn parts_overlap_when_they_share_a_zone() {
        let overlaps = |first, count| claim().overlaps(first, count);
        assert!(overlaps(16, 8) && overlaps(23, 1) && overlaps(0, 17) && overlaps(0, u32::MAX));
        assert!(!overlaps(0, 16) && !overlaps(24, 100));
    }

    #[test]
    fn claims_are_outside_the_data_area() {
        assert_eq!(places(3 * RESERVE), [2040, 2 * RESERVE]);
    }
}
