//! Contents of sectors: each holds its number and its version, and every byte is derived from the
//! two.

use hostftl_core::SECTOR;

/// Content that was found in a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Only zeros.
    Zeros,
    /// The given version of this sector, complete.
    Version(u64),
    /// Any other content, with the sector number in its first word.
    Wrong(u64),
}

/// Writes version `version` of `sector` into `out`.
pub(crate) fn fill(sector: u64, version: u64, out: &mut [u8]) {
    assert!(version > 0 && out.len() == SECTOR, "a version counts from 1, in whole sectors");
    let mut word = sector ^ version.rotate_left(32);
    for (index, chunk) in out.chunks_exact_mut(8).enumerate() {
        // The odd constant of splitmix64 makes all words different.
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ version;
        let value = match index {
            0 => sector,
            1 => version,
            _ => word,
        };
        chunk.copy_from_slice(&value.to_le_bytes());
    }
}

/// Determines the version of `sector` in `bytes`.
pub(crate) fn check(sector: u64, bytes: &[u8]) -> Found {
    if bytes.iter().all(|byte| *byte == 0) {
        return Found::Zeros;
    }
    let word = |at| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let (claimed, version) = (word(0), word(8));
    let mut expected = [0; SECTOR];
    if claimed == sector && version > 0 {
        fill(sector, version, &mut expected);
        if expected == bytes {
            return Found::Version(version);
        }
    }
    Found::Wrong(claimed)
}
