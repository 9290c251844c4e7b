//! Copying of records after a check of each.

use hostftl_core::{Part, Verdict};
use hostftl_format::page::crc32c;

/// Checks and copies parts up to the first damaged one. The verdict contains the number of intact
/// parts.
///
/// # Panics
/// When a part exceeds `from` or `into`.
pub(crate) fn copy(parts: &[Part], from: &[u8], into: &mut [u8]) -> Verdict {
    let right = parts.iter().take_while(|part| {
        let bytes = &from[part.from as usize..][..part.len as usize];
        let target = &mut into[part.into as usize..][..bytes.len()];
        let right = crc32c(part.seed, bytes) == part.crc;
        if right {
            target.copy_from_slice(bytes);
        }
        right
    });
    Verdict { bytes: right.count() as u32, crc: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_ends_at_the_first_wrong_part() {
        let from = *b"one two three";
        let part = |from: u32, into: u32, bytes: &[u8]| {
            let (seed, len) = (from.into(), bytes.len() as u32);
            Part { from, into, len, crc: crc32c(seed, bytes), seed }
        };
        let parts = [part(0, 4, b"one"), part(4, 0, b"TWO"), part(8, 8, b"three")];
        let mut into = [b'.'; 13];
        assert_eq!(copy(&parts, &from, &mut into).bytes, 1);
        assert_eq!(&into, b"....one......");
    }
}
