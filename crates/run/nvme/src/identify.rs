//! Identity of a drive, and its preferences for writes.

use serde::{Deserialize, Serialize};

use crate::bytes::{text_at, u16_at, u32_at, u64_at};
use crate::command::{Carrier, Command, PAGE_BYTES};

/// Controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    /// Model number.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// Firmware revision.
    pub firmware: String,
    /// Whether it supports flexible data placement.
    pub knows_fdp: bool,
    /// Warning temperature in kelvins, `None` if not reported.
    pub warm_kelvin: Option<u16>,
}

impl Controller {
    /// Parses the page. Returns `None` if it is too short.
    pub fn parse(page: &[u8]) -> Option<Self> {
        Some(Controller {
            serial: text_at(page, 4, 20)?,
            model: text_at(page, 24, 40)?,
            firmware: text_at(page, 64, 8)?,
            knows_fdp: u32_at(page, 96)? >> 19 & 1 == 1,
            warm_kelvin: u16_at(page, 266).filter(|kelvin| *kelvin > 0),
        })
    }
}

/// Namespace. Lengths are in bytes; `None` if not reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Number of the namespace.
    pub number: u32,
    /// Length of the namespace.
    pub bytes: u64,
    /// Length of a logical block.
    pub block_bytes: u64,
    /// Preferred write granularity (NPWG): the indirection unit, if the drive reports it.
    pub write_grain: Option<u64>,
    /// Preferred write alignment (NPWA).
    pub write_align: Option<u64>,
    /// Preferred deallocate granularity (NPDG).
    pub discard_grain: Option<u64>,
    /// Preferred deallocate alignment (NPDA).
    pub discard_align: Option<u64>,
    /// Optimal write size (NOWS).
    pub best_write: Option<u64>,
    /// Whether writing zeros can deallocate the range (DLFEAT, bit 3).
    #[serde(default)]
    pub zeroing_frees: bool,
    /// Endurance group; 0 for none.
    pub endurance_group: u16,
}

impl Namespace {
    /// Requests and parses the page. Returns `None` if the drive does not provide it.
    pub fn ask(carrier: &mut impl Carrier, number: u32) -> Option<Self> {
        let mut page = vec![0; PAGE_BYTES];
        carrier.carry(&Command::identify(0, number), &mut page).ok()?;
        Self::parse(number, &page)
    }

    /// Parses the page. Returns `None` if it is too short or inconsistent.
    pub fn parse(number: u32, page: &[u8]) -> Option<Self> {
        let format = page.get(26)?;
        // Four bits of the index, and two more since revision 2.0.
        let format = usize::from(format & 0xf | format >> 1 & 0x30);
        let shift = u32_at(page, 128 + 4 * format)? >> 16 & 0xff;
        let block_bytes = (9..=16).contains(&shift).then(|| 1_u64 << shift)?;
        // The values are zero-based numbers of blocks, and valid only if the feature bits are set.
        let states = page.get(24)? >> 4 & 3 != 0;
        let blocks_at =
            |at| Some((u64::from(u16_at(page, at)?) + 1) * block_bytes).filter(|_| states);
        Some(Namespace {
            number,
            bytes: u64_at(page, 0)?.checked_mul(block_bytes)?,
            block_bytes,
            write_grain: blocks_at(64),
            write_align: blocks_at(66),
            discard_grain: blocks_at(68),
            discard_align: blocks_at(70),
            best_write: blocks_at(72),
            zeroing_frees: page.get(33)? >> 3 & 1 == 1,
            endurance_group: u16_at(page, 102)?,
        })
    }
}
