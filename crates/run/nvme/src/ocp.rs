//! Extended SMART page of the OCP Datacenter NVMe SSD Specification (C0h). Its counter of bytes
//! written to the medium gives the drive's write amplification.

use serde::{Deserialize, Serialize};

use crate::bytes::{count_at, u16_at, u32_at};

/// Length of the page.
pub(crate) const BYTES: usize = 512;
/// GUID that identifies the page, because other vendors use the same number for their own pages.
const GUID: u128 = 0xafd5_14c9_7c6f_4f9c_a4f2_bfea_2810_afc5;

/// Content of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ocp {
    /// Bytes written to the medium, including the drive's own data.
    pub media_written_bytes: u64,
    /// Bytes read from the medium.
    pub media_read_bytes: u64,
    /// Minimum and maximum number of erases of a block.
    pub erases: (u32, u32),
    /// Free blocks in percent.
    pub free_percent: u8,
    /// Estimated total bytes that can be written, `None` if not reported.
    pub estimate_bytes: Option<u64>,
    /// Version of the page.
    pub version: u16,
}

impl Ocp {
    /// Parses the page. Returns `None` if it is too short or has another GUID.
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
