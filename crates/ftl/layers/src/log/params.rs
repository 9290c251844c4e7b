//! Parameters of a log volume; `register.rs` defines their names.

use alloc::collections::VecDeque;

use hostftl_core::Codec;

use crate::policy::{GcPolicy, Separation};

/// Default number of faults after which a device is failed.
pub(crate) const FAULT_AFTER: u16 = 50;
/// Default rate of background work during host I/O, in percent of the unthrottled rate.
pub(crate) const USUAL_SHARE: u8 = 30;

/// Choice of the spare of a new volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpareRule {
    /// The default, or as much as a stated capacity leaves.
    Usual,
    /// As much as long segments need.
    Auto,
    /// The stated percentage.
    Stated,
}

/// Parameters that only `log` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Compression of blocks.
    pub compress: Codec,
    /// Parity chunks of each stripe. One on two devices, or two on three, are mirrors.
    pub parity: u8,
    /// Policy that chooses victims.
    pub gc: GcPolicy,
    /// Separation of data into segments of its own.
    pub separation: Separation,
    /// Whether the separation of a new volume is chosen to suit the devices, see
    /// [`crate::config::LayerConfig::choose`].
    pub chooses_separation: bool,
    /// Whether the last device of the stack is a journal, to which flushes go.
    pub journal: bool,
    /// Bytes of memory for map pages. The default is enough for the whole map of a small volume,
    /// and a fraction of the exported capacity of a large one.
    pub map_memory: Option<u64>,
    /// Bytes of a reclaim unit. The default is the value reported by the devices.
    pub reclaim_unit: Option<u64>,
    /// Rate of background work during host I/O, in percent of the unthrottled rate.
    pub rebuild_share: u8,
    /// Failed reads and mismatches after which a device is failed; 0 for never.
    pub fault_after: u16,
    /// How the spare of a new volume is chosen.
    pub spare: SpareRule,
    /// Exported bytes, if more than fit without compression.
    pub logical_size: Option<u64>,
    /// Whether map pages have few pairs, so that tests get many pages of a small volume. Not
    /// available to users.
    pub few_pairs: bool,
    /// Whether a new volume starts with its last segments, so that tests reach the end of a large
    /// device. Not available to users.
    pub backwards: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            compress: Codec::Lz4,
            parity: 0,
            gc: GcPolicy::CostBenefit,
            separation: Separation::Lifetime,
            chooses_separation: true,
            journal: false,
            map_memory: None,
            reclaim_unit: None,
            rebuild_share: USUAL_SHARE,
            fault_after: FAULT_AFTER,
            spare: SpareRule::Usual,
            logical_size: None,
            few_pairs: false,
            backwards: false,
        }
    }
}

impl Params {
    /// Returns `count` segments in the order in which a new volume opens them.
    pub(in crate::log) fn order(&self, count: u32) -> VecDeque<u32> {
        if self.backwards { (0..count).rev().collect() } else { (0..count).collect() }
    }
}
