//! Memory of a map: the number of frames in its pool.

use hostftl_format::log::PAIRS;

/// Bytes of memory of a frame: its pairs, its state, and its entry in the free list.
pub(crate) const FRAME_BYTES: u64 = 12 * PAIRS as u64 + FRAME as u64 + 4;
/// Bytes of the state of a frame.
pub(crate) const FRAME: usize = 12;
/// Maximum bytes of a map that is wholly in memory by default, which is as much as replay may read.
/// In larger maps, roots write pages early, regardless of their frames.
const SMALL: u64 = 96 << 20;
/// Exported bytes for each byte of memory of a larger map.
const SHARE: u64 = 4096;
/// Quarters of a stripe that garbage collection can fill between two checkpoints that lack of
/// frames triggers, with each record in a page of its own. Such checkpoints seal stripes early, but
/// with this many frames collection still frees space. They are reserved while few segments are
/// free, see [`for_collection`].
const LEAST_STRIPES: u32 = 16;
/// Pairs in use per page when a test needs many pages of a small volume.
pub(crate) const FEW_PAIRS: usize = 16;

/// Returns the number of frames for a map of `pages` pages if `memory` bytes may be used. A stripe
/// has up to `stripe` incompressible blocks.
pub(crate) fn frames(pages: u32, blocks: u64, stripe: u32, memory: Option<u64>) -> u32 {
    let all = pages + spare(pages);
    let default = || {
        if u64::from(all) * FRAME_BYTES <= SMALL {
            u64::MAX
        } else {
            SMALL.max(blocks * 4096 / SHARE)
        }
    };
    let some = memory.unwrap_or_else(default) / FRAME_BYTES;
    let least = (LEAST_STRIPES * stripe).min(all);
    some.clamp(least.into(), all.into()) as u32
}

/// Returns the number of pages that garbage collection can change between two checkpoints, when
/// lack of frames triggers these, so that it still frees space.
pub(crate) fn for_collection(stripe: u32) -> u32 {
    LEAST_STRIPES * stripe / 4
}

/// Returns the number of frames for copies if every page has a frame.
pub(crate) fn spare(pages: u32) -> u32 {
    pages.min(256) + 64
}
