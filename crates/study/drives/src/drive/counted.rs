//! Accounting of a pool's decisions under [`Clock::Counts`](crate::Clock::Counts): counters and the
//! open rows.

use hostftl_core::Cause;

use super::back::{Back, Open};
use crate::flash::{Kind, NONE};
use crate::pool::{FlashOp, Sink, bits};

/// A sink that counts the flash operations of a pool.
pub(super) struct Counted<'a> {
    pub back: &'a mut Back,
    pub pool: u32,
    /// Sectors of the write buffer that the host's unit occupies until its row is programmed.
    pub held: u32,
}

impl Sink for Counted<'_> {
    #[inline]
    fn take(&mut self, op: FlashOp) {
        match op {
            FlashOp::Program { page } => self.back.count_programs(self.pool, page, 1, self.held),
            FlashOp::Copy { from, to } => self.copies(from, 1, to),
            FlashOp::Erase { .. } => self.back.count_erase(),
        }
    }

    #[inline]
    fn copies(&mut self, from: u32, live: u64, to: u32) {
        self.back.count_copies(self.pool, from, live, to);
    }
}

impl Back {
    /// Counts the programs of `units` consecutive units. Each unit holds `held` sectors of the
    /// write buffer.
    #[inline]
    pub(super) fn count_programs(&mut self, pool: u32, page: u32, units: u32, held: u32) {
        if self.units_per_row == 1 {
            return self.flash.count(Kind::Program, Cause::Host, units * self.rows_per_unit);
        }
        let (mut row, mut within) = (page / self.units_per_row, page % self.units_per_row);
        let mut left = units;
        while left > 0 {
            let now = left.min(self.units_per_row - within);
            if now < self.units_per_row {
                self.count_part(pool, row, now, now * held);
            } else {
                self.flash.count(Kind::Program, Cause::Host, 1);
            }
            (row, within) = (row + 1, 0);
            left -= now;
        }
    }

    /// Adds units to a row that is shared with other units.
    fn count_part(&mut self, pool: u32, row: u32, units: u32, held: u32) {
        self.work.open += u64::from(units * self.unit);
        let list = &mut self.open[pool as usize];
        let Some(at) = list.iter().position(|open| open.row == row) else {
            return list.push(Open { row, op: NONE, units, held });
        };
        let open = &mut list[at];
        open.units += units;
        open.held += held;
        if open.units == self.units_per_row {
            list.swap_remove(at);
            self.work.open -= u64::from(self.row_sectors);
            self.flash.count(Kind::Program, Cause::Host, 1);
        }
    }

    #[inline]
    fn count_copies(&mut self, pool: u32, from: u32, live: u64, to: u32) {
        let (gc, units) = (Cause::DriveGc, live.count_ones());
        self.work.sectors[gc as usize] += u64::from(units * self.unit);
        let mut crossing = live;
        let mut programs = units;
        // A copyback moves a page within its lane, so its data crosses no bus.
        if self.copyback && self.units_per_row == 1 {
            let stays =
                |&(bit, to): &(u32, u32)| self.lane(pool, from + bit) == self.lane(pool, to);
            let moves = bits(live).zip(to..).filter(stays);
            let moved = moves.fold(0, |moved, (bit, _)| moved | 1 << bit);
            crossing = live & !moved;
            programs = crossing.count_ones();
            self.flash.count(Kind::Move, gc, (units - programs) * self.rows_per_unit);
        }
        let reads = match self.units_per_row {
            1 => programs,
            _ => self.count_rows(pool, from, crossing),
        };
        let sectors = reads * self.rows_per_unit * self.row_sectors.min(self.unit);
        self.work.crossed[gc as usize] += u64::from(programs * self.unit + sectors);
        self.flash.count(Kind::Read, gc, reads * self.rows_per_unit);
        self.count_programs(pool, to, programs, 0);
    }

    /// Returns the number of rows that contain the pages `from + bit`, without the row that was
    /// read last.
    fn count_rows(&mut self, pool: u32, from: u32, mut live: u64) -> u32 {
        let per_row = self.units_per_row;
        if live == 0 {
            return 0;
        }
        let (first, last) = (live.trailing_zeros(), u64::BITS - 1 - live.leading_zeros());
        let again = self.copied == (pool, (from + first) / per_row);
        self.copied = (pool, (from + last) / per_row);
        if u64::BITS.is_multiple_of(per_row) && from.is_multiple_of(per_row) && per_row < u64::BITS
        {
            // Sets the first bit of each row in which any bit is set.
            let firsts = u64::MAX / ((1 << per_row) - 1);
            let any = (1..per_row).fold(live, |any, bit| any | live >> bit) & firsts;
            return any.count_ones() - u32::from(again);
        }
        let mut rows = 0;
        while live != 0 {
            let end = ((from + live.trailing_zeros()) / per_row + 1) * per_row - from;
            live &= u64::MAX.checked_shl(end).unwrap_or(0);
            rows += 1;
        }
        rows - u32::from(again)
    }

    fn count_erase(&mut self) {
        let lanes = if self.lane_pools { 1 } else { self.lanes };
        self.flash.count(Kind::Erase, Cause::DriveGc, lanes);
    }
}
