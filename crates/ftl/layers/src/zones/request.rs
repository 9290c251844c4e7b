//! Requests: splitting them into runs of blocks, and starting their parts.
//!
//! Invariants
//! - Writes and trims are started one at a time, in the order of arrival; so are reads.
//! - A request is complete when `cursor` has reached its end and no part of it is in flight.

use hostftl_core::{HostError, SECTORS_PER_BLOCK};

use super::blocks::Blocks;
use super::layout::MAX_TRANSFER;
use super::map::At;
use super::ops::Cx;
use super::store::Store;
use crate::kit::Health;
use crate::kit::requests::{Active, Kind};

/// Blocks that a trim unmaps per call.
const TRIM_STEP: u64 = 2048;

/// Returns the next part of a request.
fn next_part(active: &Active<u64>) -> (u64, u32) {
    part(active.kind, active.lba + active.cursor, active.sectors - active.cursor)
}

/// Returns the first sector and the length of the next part of a request with `left` sectors from
/// sector `from` on. A part that doesn't fill its first block ends within it; any other ends at a
/// block boundary.
fn part(kind: Kind, from: u64, left: u64) -> (u64, u32) {
    let block = u64::from(SECTORS_PER_BLOCK);
    let within = from % block;
    let part = match within {
        0 if left >= block && kind == Kind::Write => left / block * block,
        _ if kind == Kind::Read => left,
        _ => left.min(block - within),
    };
    (from, part.min(MAX_TRANSFER.into()) as u32)
}

impl Blocks {
    /// Begins a part of the first read, and a part of the first write or trim.
    pub(super) fn run(&mut self, store: &mut Store, cx: &mut Cx) -> bool {
        self.read_some(store, cx) | self.write_some(store, cx)
    }

    fn read_some(&self, store: &mut Store, cx: &mut Cx) -> bool {
        let Some(req) = cx.requests().first_read() else { return false };
        let failed = cx.health() == Health::Failed;
        let active = cx.request(req);
        if !active.is_begun() && !failed {
            let part = next_part(active);
            if !self.begin_read(req, part, store, cx) {
                return false;
            }
        }
        if failed || cx.request(req).is_begun() {
            cx.requests().end_read();
            store.durability.complete_if_over(req, cx);
        }
        true
    }

    fn write_some(&mut self, store: &mut Store, cx: &mut Cx) -> bool {
        let Some(req) = cx.requests().first_write() else { return false };
        let good = cx.is_good();
        let active = cx.request(req);
        // Overwrites fail too, because garbage collection would run out of space.
        if store.lines.is_worn() && active.kind == Kind::Write && !active.is_begun() {
            active.error = Some(HostError::NoSpace);
        }
        let failed = active.error.is_some() || !good;
        if !active.is_begun() && !failed {
            let (from, sectors) = next_part(active);
            let moved = match active.kind {
                Kind::Trim if sectors == SECTORS_PER_BLOCK => self.trim_some(req, from, store, cx),
                _ => self.begin_write(req, (from, sectors), store, cx),
            };
            if !moved {
                return false;
            }
        }
        if failed || cx.request(req).is_begun() {
            cx.requests().end_write();
            store.durability.complete_if_over(req, cx);
        }
        true
    }

    /// Unmaps whole blocks of a trim, and lists the trim in a row.
    fn trim_some(&self, req: u16, from: u64, store: &mut Store, cx: &mut Cx) -> bool {
        let active = cx.request(req);
        let block = u64::from(SECTORS_PER_BLOCK);
        let left = (active.lba + active.sectors - from) / block;
        let (first, blocks) = (from / block, left.min(TRIM_STEP));
        if self.any_write_in(first, first + blocks) {
            return false;
        }
        cx.touch(blocks as usize);
        // A trim of unmapped blocks needs no entry.
        let mapped = (first..first + blocks).any(|it| store.map.get(it) != At::Nowhere);
        if mapped && !store.trim(first, blocks) {
            return false;
        }
        cx.request(req).cursor += blocks * block;
        true
    }
}

/// Fails the first write for lack of space. Returns false if there is none, or if it has already
/// failed.
pub(super) fn refuse_first_write(cx: &mut Cx) -> bool {
    let Some(req) = cx.requests().first_write() else { return false };
    cx.request(req).error.replace(HostError::NoSpace).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_ends_within_its_first_block_or_at_the_end_of_a_block() {
        assert_eq!(part(Kind::Write, 3, 100), (3, 5), "to the end of the first block");
        assert_eq!(part(Kind::Write, 8, 100), (8, 96), "whole blocks");
        assert_eq!(part(Kind::Write, 8, 7), (8, 7), "a partial block");
        assert_eq!(part(Kind::Trim, 8, 100), (8, 8), "block by block");
        assert_eq!(part(Kind::Read, 3, 100), (3, 100), "all");
        assert_eq!(part(Kind::Write, 0, 1 << 20), (0, MAX_TRANSFER));
    }
}
