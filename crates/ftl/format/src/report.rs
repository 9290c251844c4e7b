//! Reports of a device about itself, as the result of `Command::Report`: lists without a header,
//! because they are never stored on media.
//!
//! `About::Collectible` is a list of first sectors of indirection units, 8 bytes each,
//! little-endian. `About::Segments` is a list of entries of 32 bytes in the layout of the chunk
//! descriptors of Open-Channel 2.0:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | state: 1 free, 2 closed, 4 open, 8 offline |
//! | 1 | zero: written in order |
//! | 2 | wear index, 0 (new) to 255 (worn out) |
//! | 3..8 | zero |
//! | 8..16 | first sector |
//! | 16..24 | sectors that can be written |
//! | 24..32 | write pointer, in sectors from the first; offline: end of the readable sectors |

use hostftl_core::{BLOCK, Page};

use crate::page::{put_u64, u64_at};

/// Length of an entry for a segment, in bytes.
pub const SEGMENT_BYTES: usize = 32;
/// Length of an entry for an indirection unit, in bytes.
pub const UNIT_BYTES: usize = 8;

/// State of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SegmentState {
    /// Erased: writes start at its first sector.
    Free = 1,
    /// Completely written.
    Closed = 2,
    /// Partly written.
    Open = 4,
    /// Worn out or failed: it cannot be written or reset, and is readable up to the pointer.
    Offline = 8,
}

/// Segment in a report. The table above describes the fields; lengths are in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above describes the fields")]
pub struct SegmentReport {
    pub state: SegmentState,
    pub wear: u8,
    pub start: u64,
    pub length: u64,
    pub pointer: u64,
}

/// Writes entry `index` of a list of segments. Returns false if it does not fit.
pub fn put_segment(pages: &mut [Page], index: usize, report: &SegmentReport) -> bool {
    let Some((page, at)) = place(pages, index, SEGMENT_BYTES) else { return false };
    page.0[at..at + SEGMENT_BYTES].fill(0);
    page.0[at] = report.state as u8;
    page.0[at + 2] = report.wear;
    put_u64(page, at + 8, report.start);
    put_u64(page, at + 16, report.length);
    put_u64(page, at + 24, report.pointer);
    true
}

/// Returns entry `index` of a list of segments; `None` if it is not a valid entry.
pub fn segment(pages: &[Page], index: usize) -> Option<SegmentReport> {
    let page = pages.get(index * SEGMENT_BYTES / BLOCK)?;
    let at = index * SEGMENT_BYTES % BLOCK;
    let state = match page.0[at] {
        1 => SegmentState::Free,
        2 => SegmentState::Closed,
        4 => SegmentState::Open,
        8 => SegmentState::Offline,
        _ => return None,
    };
    let (start, length) = (u64_at(page, at + 8), u64_at(page, at + 16));
    let (wear, pointer) = (page.0[at + 2], u64_at(page, at + 24));
    (pointer <= length).then_some(SegmentReport { state, wear, start, length, pointer })
}

/// Writes entry `index` of a list of indirection units. Returns false if it does not fit.
pub fn put_unit(pages: &mut [Page], index: usize, first_sector: u64) -> bool {
    let Some((page, at)) = place(pages, index, UNIT_BYTES) else { return false };
    put_u64(page, at, first_sector);
    true
}

/// Returns entry `index` of a list of indirection units; `None` beyond the pages.
pub fn unit(pages: &[Page], index: usize) -> Option<u64> {
    let page = pages.get(index * UNIT_BYTES / BLOCK)?;
    Some(u64_at(page, index * UNIT_BYTES % BLOCK))
}

fn place(pages: &mut [Page], index: usize, each: usize) -> Option<(&mut Page, usize)> {
    let page = pages.get_mut(index * each / BLOCK)?;
    Some((page, index * each % BLOCK))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn entries_round_trip_and_end_with_the_pages() {
        let mut pages = vec![Page::default(); 2];
        let states =
            [SegmentState::Free, SegmentState::Closed, SegmentState::Open, SegmentState::Offline];
        let entry = |index: usize| SegmentReport {
            state: states[index % 4],
            wear: index as u8,
            start: index as u64 * 4096,
            length: 4000,
            pointer: index as u64 * 8,
        };
        assert!((0..256).all(|index| put_segment(&mut pages, index, &entry(index))));
        assert!(!put_segment(&mut pages, 256, &entry(256)));
        assert!((0..256).all(|index| segment(&pages, index) == Some(entry(index))));
        assert_eq!(segment(&pages, 256), None);
        pages[0].0[0] = 3;
        assert_eq!(segment(&pages, 0), None, "a state that is none");
        pages[0].0[32 + 24..32 + 32].fill(0xff);
        assert_eq!(segment(&pages, 1), None, "a pointer beyond the end");
    }

    #[test]
    fn units_round_trip() {
        let mut pages = vec![Page::default(); 1];
        assert!((0..512).all(|index| put_unit(&mut pages, index, index as u64 * 64)));
        assert!(!put_unit(&mut pages, 512, 0));
        assert_eq!((unit(&pages, 511), unit(&pages, 512)), (Some(511 * 64), None));
    }
}
