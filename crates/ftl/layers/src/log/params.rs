//! The parameters of a log volume; `register.rs` has their words.

use alloc::collections::VecDeque;

use hostftl_core::Codec;

use crate::policy::{GcPolicy, Separation};

/// The usual number of faults after which a device is given up.
pub(crate) const FAULT_AFTER: u16 = 50;
/// The usual share of the best rate at which background work goes on beside a host, in percent.
pub(crate) const USUAL_SHARE: u8 = 30;

/// What only `log` can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// How blocks are compressed.
    pub compress: Codec,
    /// Chunks of parity of each row: with one on two devices, or two on three, those are mirrors.
    pub parity: u8,
    /// Which segment is collected next.
    pub gc: GcPolicy,
    /// What is kept apart in segments of its own.
    pub separation: Separation,
    /// Whether the last device of the stack is a journal, to which flushes go.
    pub journal: bool,
    /// Bytes of memory for map pages; unless it is set, enough for all of a small volume, and a
    /// share of what a large one exports.
    pub map_memory: Option<u64>,
    /// Bytes that a device erases at once; unless it is set, what the devices say.
    pub reclaim_unit: Option<u64>,
    /// How much of their best rate work in the background has beside a host, in percent.
    pub rebuild_share: u8,
    /// Failed reads and mismatches of a device after which it is given up; 0 for never.
    pub fault_after: u16,
    /// Whether the devices decide how much is kept spare: see `LayerConfig::choose_spare`.
    pub chooses_spare: bool,
    /// Bytes that the host sees, when that is more than fits without compression.
    pub logical_size: Option<u64>,
    /// Whether map pages have few pairs: tests get many pages of a small volume. No user may choose
    /// it.
    pub few_pairs: bool,
    /// Whether a new volume begins with its last segments: tests get to the end of a large device.
    /// No user may choose it.
    pub backwards: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            compress: Codec::Lz4,
            parity: 0,
            gc: GcPolicy::CostBenefit,
            separation: Separation::Lifetime,
            journal: false,
            map_memory: None,
            reclaim_unit: None,
            rebuild_share: USUAL_SHARE,
            fault_after: FAULT_AFTER,
            chooses_spare: false,
            logical_size: None,
            few_pairs: false,
            backwards: false,
        }
    }
}

impl Params {
    /// So many segments in the order in which a new volume takes them.
    pub(in crate::log) fn order(&self, count: u32) -> VecDeque<u32> {
        if self.backwards { (0..count).rev().collect() } else { (0..count).collect() }
    }
}
