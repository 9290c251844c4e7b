//! Flexible data placement: the configuration of an endurance group (20h), its statistics (22h),
//! and the handles of a namespace.

use serde::{Deserialize, Serialize};

use crate::bytes::{count_at, u16_at, u32_at, u64_at};

/// Bytes of the page of statistics.
pub(crate) const STATISTICS_BYTES: usize = 64;
/// Bytes before the first configuration, and of a configuration without its handles.
const HEAD: usize = 16;
const CONFIGURATION: usize = 64;
/// Bytes before the first handle of a namespace, and of one.
const HANDLES_HEAD: usize = 16;
const HANDLE: usize = 32;

/// What is known of placement on a drive that knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fdp {
    /// Whether it is on.
    pub on: bool,
    /// The configuration that is on, or the first one.
    pub configuration: Configuration,
    /// What was written since the statistics began; none where they can't be had.
    pub statistics: Option<Statistics>,
    /// The placements that the namespace may use.
    pub placements: Vec<Placement>,
}

/// One way in which an endurance group can be divided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Its number.
    pub index: u8,
    /// Reclaim groups.
    pub groups: u32,
    /// Reclaim unit handles: as many reclaim units are open at once, in each group.
    pub handles: u16,
    /// Placement identifiers of a namespace at the most.
    pub most_placements: u32,
    /// A reclaim unit, in bytes: what the drive erases as one.
    pub unit_bytes: u64,
}

impl Configuration {
    /// The configuration `index` of the page; none where the page has it not.
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
    /// Written by hosts, their metadata too.
    pub host_bytes: u64,
    /// Written to the medium, what the drive moved among them.
    pub media_bytes: u64,
    /// Erased.
    pub erased_bytes: u64,
}

impl Statistics {
    /// Understands the page; none of a page that is too short.
    pub fn parse(page: &[u8]) -> Option<Self> {
        Some(Statistics {
            host_bytes: count_at(page, 0, 1)?,
            media_bytes: count_at(page, 16, 1)?,
            erased_bytes: count_at(page, 32, 1)?,
        })
    }
}

/// A placement that a namespace may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// What a write names (the directive's specific field).
    pub identifier: u16,
    /// The reclaim unit handle behind it.
    pub handle: u16,
    /// Blocks that the open reclaim unit has room for.
    pub room_blocks: u64,
}

impl Placement {
    /// Bytes of a page with so many placements.
    pub fn list_bytes(count: usize) -> usize {
        HANDLES_HEAD + count * HANDLE
    }

    /// How many placements there are by the head of the page; none when it is too short for that.
    pub fn count(page: &[u8]) -> Option<usize> {
        u16_at(page, 14).map(usize::from)
    }

    /// The placements of the page; none of a page that is too short for its head.
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
