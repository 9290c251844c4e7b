//! Who a drive is, and how it says that it wants to be written.

use serde::{Deserialize, Serialize};

use crate::bytes::{text_at, u16_at, u32_at, u64_at};
use crate::command::{Carrier, Command, PAGE_BYTES};

/// The controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    /// Model number.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// Firmware revision.
    pub firmware: String,
    /// Whether it knows flexible data placement.
    pub knows_fdp: bool,
    /// Kelvin from which on it is too warm; none where it does not say.
    pub warm_kelvin: Option<u16>,
}

impl Controller {
    /// Understands the page; none of a page that is too short.
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

/// A namespace. Lengths are in bytes; none where the drive states nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its number.
    pub number: u32,
    /// Its length.
    pub bytes: u64,
    /// A logical block.
    pub block_bytes: u64,
    /// Preferred write granularity (NPWG): the map unit, where a drive says so.
    pub write_grain: Option<u64>,
    /// Preferred write alignment (NPWA).
    pub write_align: Option<u64>,
    /// Preferred deallocate granularity (NPDG).
    pub discard_grain: Option<u64>,
    /// Preferred deallocate alignment (NPDA).
    pub discard_align: Option<u64>,
    /// Optimal write size (NOWS).
    pub best_write: Option<u64>,
    /// Whether writing zeros can free what they cover (DLFEAT, bit 3).
    #[serde(default)]
    pub zeroing_frees: bool,
    /// The endurance group; 0 for none.
    pub endurance_group: u16,
}

impl Namespace {
    /// Asks for the page; none of a drive that does not say.
    pub fn ask(carrier: &mut impl Carrier, number: u32) -> Option<Self> {
        let mut page = vec![0; PAGE_BYTES];
        carrier.carry(&Command::identify(0, number), &mut page).ok()?;
        Self::parse(number, &page)
    }

    /// Understands the page; none of a page that is too short or makes no sense.
    pub fn parse(number: u32, page: &[u8]) -> Option<Self> {
        let format = page.get(26)?;
        // Four bits of the index, and two more since revision 2.0.
        let format = usize::from(format & 0xf | format >> 1 & 0x30);
        let shift = u32_at(page, 128 + 4 * format)? >> 16 & 0xff;
        let block_bytes = (9..=16).contains(&shift).then(|| 1_u64 << shift)?;
        // Counted from 0, in blocks, and only there when the feature bits say so.
        let states = page.get(24)? >> 4 & 3 != 0;
        let of = |at| Some((u64::from(u16_at(page, at)?) + 1) * block_bytes).filter(|_| states);
        Some(Namespace {
            number,
            bytes: u64_at(page, 0)?.checked_mul(block_bytes)?,
            block_bytes,
            write_grain: of(64),
            write_align: of(66),
            discard_grain: of(68),
            discard_align: of(70),
            best_write: of(72),
            zeroing_frees: page.get(33)? >> 3 & 1 == 1,
            endurance_group: u16_at(page, 102)?,
        })
    }
}
