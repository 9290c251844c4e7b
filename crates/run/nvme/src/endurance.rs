//! Page of an endurance group (09h). Its units are 10^9 bytes, rounded up.

use serde::{Deserialize, Serialize};

use crate::bytes::count_at;

/// Length of the page.
pub(crate) const BYTES: usize = 512;
const UNIT: u64 = 1_000_000_000;

/// Wear of an endurance group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endurance {
    /// Used share of the rated life in percent.
    pub used_percent: u8,
    /// Estimated total bytes that can be written, `None` if not reported.
    pub estimate_bytes: Option<u64>,
    /// Bytes written by hosts.
    pub written_bytes: u64,
    /// Bytes written to the medium, `None` if not reported.
    pub media_bytes: Option<u64>,
}

impl Endurance {
    /// Parses the page. Returns `None` if it is too short.
    pub fn parse(page: &[u8]) -> Option<Self> {
        let reported_bytes = |at| count_at(page, at, UNIT).filter(|bytes| *bytes > 0);
        Some(Endurance {
            used_percent: *page.get(5)?,
            estimate_bytes: reported_bytes(32),
            written_bytes: count_at(page, 64, UNIT)?,
            media_bytes: reported_bytes(80),
        })
    }
}
