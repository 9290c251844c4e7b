//! How much memory a map takes: how many frames its pool has.

use hostftl_format::log::PAIRS;

/// Bytes of memory of a frame: its pairs, what is known of it, its place among the free ones.
pub(crate) const FRAME_BYTES: u64 = 12 * PAIRS as u64 + FRAME as u64 + 4;
/// Bytes of what is known of a frame.
pub(crate) const FRAME: usize = 12;
/// A map of up to so many bytes is wholly in memory by default: as much as replay may read. Of a
/// larger one roots write the pages before they changed often, wherever they are kept.
const SMALL: u64 = 96 << 20;
/// Bytes that are exported for each byte of memory of a larger one.
const SHARE: u64 = 4096;
/// A checkpoint for want of frames seals rows early. Collection gains all the same when it can fill
/// that many quarters of a row in between, each record in a page of its own: so many frames are
/// kept for that while segments are few, see [`for_collection`].
const LEAST_ROWS: u32 = 16;
/// Pairs of a page that are used when a test wants many pages of a small volume.
pub(crate) const FEW_PAIRS: usize = 16;

/// Frames of the pool of a map of `pages` pages, for which `memory` bytes may be used; a row has up
/// to `row` blocks that can't be compressed.
pub(crate) fn frames(pages: u32, blocks: u64, row: u32, memory: Option<u64>) -> u32 {
    let all = pages + spare(pages);
    let default = || {
        if u64::from(all) * FRAME_BYTES <= SMALL {
            u64::MAX
        } else {
            SMALL.max(blocks * 4096 / SHARE)
        }
    };
    let some = memory.unwrap_or_else(default) / FRAME_BYTES;
    let least = (LEAST_ROWS * row).min(all);
    some.clamp(least.into(), all.into()) as u32
}

/// Pages that collection changes between two checkpoints for want of frames, when it gains room all
/// the same.
pub(crate) fn for_collection(row: u32) -> u32 {
    LEAST_ROWS * row / 4
}

/// Frames for copies when all pages have one.
pub(crate) fn spare(pages: u32) -> u32 {
    pages.min(256) + 64
}
