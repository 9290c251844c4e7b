//! Common header of all metadata pages of 4 KiB.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | CRC-32C of bytes 4..4096, seeded with the page's address |
//! | 4..8 | kind, four ASCII letters |
//! | 8..24 | volume UUID |
//! | 24..32 | sequence number; its meaning depends on the kind |
//!
//! All integers are little-endian. The address (sector on the device) in the checksum detects
//! misdirected reads and writes of a page.

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use hostftl_core::Page;

/// Start of a page's content.
pub const HEADER: usize = 32;

/// Expected identity of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Kind: four ASCII letters.
    pub kind: [u8; 4],
    /// UUID of the volume.
    pub uuid: [u8; 16],
    /// First sector of the page on its device.
    pub at: u64,
}

/// Reason why a page is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Another kind of page, another volume, or not a page.
    Foreign,
    /// The right header, but a wrong checksum: torn, corrupted or misplaced.
    Damaged,
}

/// Returns the CRC-32C of `bytes`, seeded with `seed`.
pub fn crc32c(seed: u64, bytes: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(Crc32Iscsi);
    digest.update(&seed.to_le_bytes());
    digest.update(bytes);
    digest.finalize() as u32
}

/// Returns the CRC-32C of the concatenated `parts`, seeded with `seed`.
pub fn crc32c_parts<'a>(seed: u64, parts: impl Iterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(Crc32Iscsi);
    digest.update(&seed.to_le_bytes());
    parts.for_each(|part| digest.update(part));
    digest.finalize() as u32
}

/// Writes the header of a page whose content is complete.
pub fn seal(page: &mut Page, stamp: Stamp, seq: u64) {
    page.0[4..8].copy_from_slice(&stamp.kind);
    page.0[8..24].copy_from_slice(&stamp.uuid);
    page.0[24..32].copy_from_slice(&seq.to_le_bytes());
    let crc = crc32c(stamp.at, &page.0[4..]);
    page.0[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Checks a page and returns its sequence number.
///
/// # Errors
/// [`Fault`], when the page is foreign or damaged.
pub fn open(page: &Page, stamp: Stamp) -> Result<u64, Fault> {
    if page.0[4..8] != stamp.kind || page.0[8..24] != stamp.uuid {
        return Err(Fault::Foreign);
    }
    if page.0[..4] != crc32c(stamp.at, &page.0[4..]).to_le_bytes() {
        return Err(Fault::Damaged);
    }
    Ok(u64_at(page, 24))
}

/// Returns the little-endian u64 at byte `at`.
pub fn u64_at(page: &Page, at: usize) -> u64 {
    u64::from_le_bytes(page.0[at..at + 8].try_into().expect("eight bytes"))
}

/// Returns the little-endian u32 at byte `at`.
pub fn u32_at(page: &Page, at: usize) -> u32 {
    u32::from_le_bytes(page.0[at..at + 4].try_into().expect("four bytes"))
}

/// Writes a little-endian u64 at byte `at`.
pub fn put_u64(page: &mut Page, at: usize, value: u64) {
    page.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Writes a little-endian u32 at byte `at`.
pub fn put_u32(page: &mut Page, at: usize, value: u32) {
    page.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
}
