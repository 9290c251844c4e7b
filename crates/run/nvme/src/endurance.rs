//! The page of an endurance group (09h). Its units are 10^9 bytes, rounded up.

use serde::{Deserialize, Serialize};

use crate::bytes::count_at;

/// Bytes of the page.
pub(crate) const BYTES: usize = 512;
const UNIT: u64 = 1_000_000_000;

/// The wear of an endurance group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endurance {
    /// The share of the rated life that is used, in percent.
    pub used_percent: u8,
    /// What can be written in a life, by the drive's estimate; none where it is not told.
    pub estimate_bytes: Option<u64>,
    /// What hosts wrote.
    pub written_bytes: u64,
    /// What was written to the medium; none where it is not told.
    pub media_bytes: Option<u64>,
}

impl Endurance {
    /// Understands the page; none of a page that is too short.
    pub fn parse(page: &[u8]) -> Option<Self> {
        let told = |at| count_at(page, at, UNIT).filter(|bytes| *bytes > 0);
        Some(Endurance {
            used_percent: *page.get(5)?,
            estimate_bytes: told(32),
            written_bytes: count_at(page, 64, UNIT)?,
            media_bytes: told(80),
        })
    }
}
