//! Content of host sectors: each contains its own address and version, so that it can be identified
//! wherever it is found.

use hostftl_core::SECTOR;

const WORDS: usize = SECTOR / 8;
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Content that was found in a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Zeros.
    Zeros,
    /// Version `version` of sector `lba`, complete.
    Version {
        /// Address of the sector.
        lba: u64,
        /// Number of the write.
        version: u32,
    },
    /// Neither zeros nor a host sector of this volume.
    Garbage,
}

fn first(volume: u64, lba: u64, version: u32) -> u64 {
    volume ^ (lba << 32 | u64::from(version))
}

/// Returns the number of different words in a sector; the rest repeat the last of them. Writes
/// therefore compress by different ratios, and some not at all.
fn varied(version: u32) -> usize {
    [WORDS, WORDS, WORDS / 2, WORDS / 4, WORDS / 8][version as usize % 5]
}

fn pattern(head: u64) -> u64 {
    (head ^ head >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1
}

/// Fills a sector with version `version` of sector `lba` of `volume`. Version 0 is never written.
pub(crate) fn fill(sector: &mut [u8], volume: u64, lba: u64, version: u32) {
    let head = first(volume, lba, version);
    let mut word = pattern(head);
    let (words, _) = sector.as_chunks_mut::<8>();
    words[0] = head.to_le_bytes();
    let (some, rest) = words[1..].split_at_mut(varied(version) - 1);
    for out in some {
        *out = word.to_le_bytes();
        word = word.wrapping_add(STRIDE);
    }
    rest.fill(word.to_le_bytes());
}

/// Identifies a sector and checks every byte of it.
pub(crate) fn identify(sector: &[u8], volume: u64) -> Found {
    let (words, _) = sector.as_chunks::<8>();
    assert_eq!(words.len(), WORDS, "a sector");
    let head = u64::from_le_bytes(words[0]);
    let base = pattern(head);
    let mut wrong = 0;
    let mut word = base;
    let name = head ^ volume;
    let (some, rest) = words[1..].split_at(varied(name as u32) - 1);
    for chunk in some {
        wrong |= u64::from_le_bytes(*chunk) ^ word;
        word = word.wrapping_add(STRIDE);
    }
    for chunk in rest {
        wrong |= u64::from_le_bytes(*chunk) ^ word;
    }
    if wrong == 0 {
        return Found::Version { lba: name >> 32, version: name as u32 };
    }
    if sector.iter().all(|&byte| byte == 0) { Found::Zeros } else { Found::Garbage }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_identifies_itself_and_bit_flips_are_detected() {
        let mut sector = [0; SECTOR];
        assert_eq!(identify(&sector, 7), Found::Zeros);
        for version in 56..61 {
            fill(&mut sector, 7, 1234, version);
            let name = Found::Version { lba: 1234, version };
            assert_eq!(identify(&sector, 7), name);
            for bit in 0..SECTOR * 8 {
                sector[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(identify(&sector, 7), name, "bit {bit}");
                sector[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn the_sector_of_another_volume_is_not_ours() {
        let mut sector = [0; SECTOR];
        fill(&mut sector, 0x5555_0000_0000, 9, 2);
        assert_ne!(identify(&sector, 0x7777_0000_0000), Found::Version { lba: 9, version: 2 });
    }
}
