//! Flexible data placement: configuration of an endurance group (20h), statistics (22h), and the
//! handles of a namespace.

use serde::{Deserialize, Serialize};

use crate::bytes::{count_at, u16_at, u32_at, u64_at};

/// Length of the statistics page.
pub(crate) const STATISTICS_BYTES: usize = 64;
/// Bytes before the first configuration, and of a configuration without its handles.
const HEAD: usize = 16;
const CONFIGURATION: usize = 64;
/// Bytes before the first handle of a namespace, and of a handle.
const HANDLES_HEAD: usize = 16;
const HANDLE: usize = 32;

/// Placement properties of a drive that supports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fdp {
    /// Whether placement is enabled.
    pub on: bool,
    /// Active configuration, or the first one.
    pub configuration: Configuration,
    /// Amounts of data since the statistics began; `None` if unavailable.
    pub statistics: Option<Statistics>,
    /// Placements that the namespace may use.
    pub placements: Vec<Placement>,
}

/// Division of an endurance group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Number of the configuration.
    pub index: u8,
    /// Number of reclaim groups.
    pub groups: u32,
    /// Number of reclaim unit handles, and thus of open reclaim units in each group.
    pub handles: u16,
    /// Maximum number of placement identifiers of a namespace.
    pub most_placements: u32,
    /// Size of a reclaim unit in bytes, which the drive erases as a whole.
    pub unit_bytes: u64,
}

impl Configuration {
    /// Parses the configuration `index` of the page; `None` if the page does not have it.
    pub fn parse(page: &[u8], index: u8) -> Option<Self> {
        let count = usize::from(u16_at(page, 0)?) + 1;
        let mut at = HEAD;
        (usize::from(index) < count).then_some(())?;
        for _ in 0..index {
            let bytes = usize::from(u16_at(page, at)?);
            (bytes >= CONFIGURATION).then_some(())?;
            at = at.checked_add(bytes)?;
        }
        let one = page.get(at..)?;
        Some(Configuration {
            index,
            groups: u32_at(one, 4)?,
            handles: u16_at(one, 8)?,
            most_placements: u32::from(u16_at(one, 10)?) + 1,
            unit_bytes: u64_at(one, 16)?,
        })
    }
}

/// Bytes since the statistics began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Bytes written by hosts, with metadata.
    pub host_bytes: u64,
    /// Bytes written to the medium, including the drive's own copies.
    pub media_bytes: u64,
    /// Bytes erased.
    pub erased_bytes: u64,
}

impl Statistics {
    /// Parses the page. Returns `None` if it is too short.
    pub fn parse(page: &[u8]) -> Option<Self> {
        Some(Statistics {
            host_bytes: count_at(page, 0, 1)?,
            media_bytes: count_at(page, 16, 1)?,
            erased_bytes: count_at(page, 32, 1)?,
        })
    }
}

/// Placement that a namespace may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Identifier in a write command (directive specific field).
    pub identifier: u16,
    /// Reclaim unit handle.
    pub handle: u16,
    /// Remaining blocks of the open reclaim unit.
    pub room_blocks: u64,
}

impl Placement {
    /// Returns the length of a page with `count` placements.
    pub fn list_bytes(count: usize) -> usize {
        HANDLES_HEAD + count * HANDLE
    }

    /// Returns the number of placements from the head of the page; `None` if it is too short.
    pub fn count(page: &[u8]) -> Option<usize> {
        u16_at(page, 14).map(usize::from)
    }

    /// Parses the placements of the page; `None` if it is too short for its head.
    pub fn parse_all(page: &[u8]) -> Option<Vec<Self>> {
        let count = Self::count(page)?;
        let places = page.get(HANDLES_HEAD..)?.chunks_exact(HANDLE).take(count);
        let one = |it: &[u8]| {
            Some(Placement {
                identifier: u16_at(it, 0)?,
                handle: u16_at(it, 2)?,
                room_blocks: u64_at(it, 8)?,
            })
        };
        places.map(one).collect()
    }
}
