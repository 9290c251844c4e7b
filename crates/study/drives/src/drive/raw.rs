//! A raw drive in time: commands to segments become operations of the flash that all drives share.
//!
//! Invariants
//! - A segment is a block of one lane, and its rows are its pages. The operations of a lane start
//!   in the order of submission, and so do the programs of a segment.
//! - A program or reset that fails takes as long as a successful one and is counted alike.

use std::ops::Range;

use hostftl_core::{Cause, Command, DeviceError, Nanos, Tally};

use super::Drive;
use super::back::Errand;
use super::tally::book;
use crate::flash::{Kind, NONE, Op};
use crate::pool::FlashOp;
use crate::zoned::{Refusal, Zoned};

impl Drive {
    /// Submits a command to a raw drive, with the contract of [`Drive::submit`].
    pub(super) fn submit_raw(
        &mut self,
        now: Nanos,
        slot: u32,
        command: &Command,
    ) -> Option<Result<(), DeviceError>> {
        let raw = self.raw.as_mut().expect("a raw device");
        let mut pages = 0..0;
        let mut erased = None;
        let mut sink = |op: FlashOp| match op {
            FlashOp::Program { page } if pages.is_empty() => pages = page..page + 1,
            FlashOp::Program { page } => pages.end = page + 1,
            FlashOp::Erase { segment } => erased = Some(segment),
            FlashOp::Copy { .. } => unreachable!("a raw device copies nothing"),
        };
        let done = raw.submit(command, &mut sink);
        let started = match command {
            Command::Read { into, cause, .. } => {
                let pages = done.clone().unwrap_or(0..0);
                self.read_rows(now, slot, pages, into.sectors(), *cause)
            }
            Command::Program { tally, .. } if pages.is_empty() => {
                self.refuse(tally);
                0
            }
            Command::Program { tally, .. } => self.program_rows(now, slot, pages, tally),
            _ => erased.map_or(0, |segment| self.erase_segment(now, slot, segment)),
        };
        let result = done.map(|_: Range<u32>| ()).map_err(Refusal::into);
        if started == 0 || !self.back.timed {
            return Some(result);
        }
        let slot = &mut self.slots[slot as usize];
        (slot.pending, slot.result) = (started, result);
        None
    }

    /// Reads a range of pages of one segment. Returns the number of operations.
    fn read_rows(
        &mut self,
        now: Nanos,
        slot: u32,
        pages: Range<u32>,
        sectors: u32,
        cause: Cause,
    ) -> u32 {
        if pages.is_empty() {
            return 0;
        }
        let (lane, page) = self.lane_at(pages.start);
        self.back.work.crossed[cause as usize] += u64::from(sectors);
        self.back.read(lane, page, pages.len() as u32, sectors, cause, now, slot);
        1
    }

    fn program_rows(&mut self, now: Nanos, slot: u32, pages: Range<u32>, tally: &Tally) -> u32 {
        book(&mut self.back.work.sectors, tally);
        book(&mut self.back.work.crossed, tally);
        let (lane, page) = self.lane_at(pages.start);
        let rows = pages.len() as u32;
        if !self.back.timed {
            self.back.count_programs(lane, page, rows, 0);
            return rows;
        }
        let errand = Errand { now, owner: slot, first: NONE };
        for page in page..page + rows {
            self.back.take(lane, FlashOp::Program { page }, &errand);
        }
        rows
    }

    /// Counts a program that the drive refused; none of its data arrives.
    fn refuse(&mut self, tally: &Tally) {
        book(&mut self.refused, tally);
    }

    fn erase_segment(&mut self, now: Nanos, slot: u32, segment: u32) -> u32 {
        let blocks = self.spec.shape.blocks;
        let lane = self.back.flash.lane(segment / blocks, || segment % blocks);
        if !self.back.timed {
            self.back.flash.count(Kind::Erase, Cause::Gc, 1);
            return 1;
        }
        let mut op = Op::new(Kind::Erase, Cause::Gc, lane, 1, now);
        op.owner = slot;
        let op = self.back.flash.prepare(op);
        self.back.flash.queue(now, op);
        1
    }

    /// Returns the lane of a page and the page's number in that lane. `page` is numbered over all
    /// segments.
    fn lane_at(&self, page: u32) -> (u32, u32) {
        let of_lane = self.spec.shape.blocks * self.spec.shape.rows;
        (page / of_lane, page % of_lane)
    }

    /// Returns the segments of a raw drive, or `None` for other drives.
    pub(super) fn raw(&self) -> Option<&Zoned> {
        self.raw.as_ref()
    }
}
