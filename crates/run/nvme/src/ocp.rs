//! The extended SMART page of the OCP Datacenter NVMe SSD Specification (C0h), whose counter of
//! bytes written to the medium is what write amplification is measured with.

use serde::{Deserialize, Serialize};

use crate::bytes::{count_at, u16_at, u32_at};

/// Bytes of the page.
pub(crate) const BYTES: usize = 512;
/// How the page is known: other vendors use the same number for pages of their own.
const GUID: u128 = 0xafd5_14c9_7c6f_4f9c_a4f2_bfea_2810_afc5;

/// What the page tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ocp {
    /// Physical media units written: bytes, the drive's own data among them.
    pub media_written_bytes: u64,
    /// Physical media units read.
    pub media_read_bytes: u64,
    /// Erases of the block that was erased least, and of the one that was erased most.
    pub erases: (u32, u32),
    /// Free blocks, in percent.
    pub free_percent: u8,
    /// What can be written in a life, by the drive's estimate; none where it is not told.
    pub estimate_bytes: Option<u64>,
    /// The version of the page.
    pub version: u16,
}

impl Ocp {
    /// Understands the page; none of a page that is too short, or another one.
    pub fn parse(page: &[u8]) -> Option<Self> {
        let guid = u128::from_le_bytes(page.get(496..512)?.try_into().ok()?);
        (guid == GUID).then_some(())?;
        let (most, least) = (u32_at(page, 88)?, u32_at(page, 92)?);
        Some(Ocp {
            media_written_bytes: count_at(page, 0, 1)?,
            media_read_bytes: count_at(page, 16, 1)?,
            erases: (least, most),
            free_percent: *page.get(120)?,
            estimate_bytes: count_at(page, 176, 1).filter(|bytes| *bytes > 0),
            version: u16_at(page, 494)?,
        })
    }
}
