//! Translation of a pool's decisions into flash operations, counted at once or queued in time.
//!
//! Invariants
//! - Both clocks count the same; no counter depends on the time.
//! - A row that several map units share is programmed when its last unit arrives. Until then it is
//!   open: it is kept in RAM, and no operation is queued for it.

use hostftl_core::{Cause, Nanos};

use super::acks::Acks;
use crate::flash::{Flash, Kind, Lane, NONE, Op};
use crate::pool::FlashOp;
use crate::spec::{DriveSpec, Pooling};
use crate::work::DriveWork;

/// Owner of programs whose writes are acknowledged from the write buffer.
pub(super) const BUFFER: u32 = NONE - 1;

/// Origin of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Errand {
    pub now: Nanos,
    /// Slot of the command, [`BUFFER`], or [`NONE`] for garbage collection.
    pub owner: u32,
    /// Read that must end first, or [`NONE`].
    pub first: u32,
}

/// A row that is not full yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub row: u32,
    /// Its prepared program, or [`NONE`] under the clock that only counts.
    pub op: u32,
    pub units: u32,
    pub held: u32,
}

#[derive(Debug)]
pub(super) struct Back {
    pub flash: Flash,
    pub timed: bool,
    pub work: DriveWork,
    pub acks: Acks,
    pub(super) lanes: u32,
    pub(super) lane_pools: bool,
    pub(super) unit: u32,
    pub(super) row_sectors: u32,
    pub(super) units_per_row: u32,
    pub(super) rows_per_unit: u32,
    /// Map units in a segment of a pool.
    segment: u32,
    pub(super) copyback: bool,
    /// Open rows of each pool.
    pub(super) open: Vec<Vec<Open>>,
    /// Pool and row that garbage collection read last. Further units of that row need no second
    /// read.
    pub(super) copied: (u32, u32),
}

impl Back {
    pub(super) fn new(spec: &DriveSpec) -> Self {
        Back {
            flash: Flash::new(spec),
            timed: true,
            work: DriveWork::default(),
            acks: Acks::new(spec.write_buffer / 2),
            lanes: spec.shape.lanes(),
            lane_pools: spec.pools == Pooling::Plane,
            unit: spec.map_unit,
            row_sectors: spec.shape.row_sectors,
            units_per_row: spec.units_per_row(),
            rows_per_unit: spec.rows_per_unit(),
            segment: spec.pool(0).pages,
            copyback: spec.copyback,
            open: (0..spec.pool_count()).map(|_| Vec::with_capacity(16)).collect(),
            copied: (NONE, NONE),
        }
    }

    /// Returns the lane of a page of a pool.
    #[inline]
    pub(super) fn lane(&self, pool: u32, page: u32) -> u32 {
        match (self.lane_pools, self.units_per_row) {
            (true, _) => pool,
            (false, 1) => page % self.lanes,
            (false, units) => page / units % self.lanes,
        }
    }

    /// Returns the lane and block of a page.
    #[inline]
    fn place(&self, pool: u32, page: u32) -> Lane {
        self.flash.lane(self.lane(pool, page), || page / self.segment)
    }

    /// Queues the flash operations of a pool for a write of the host.
    #[inline]
    pub(super) fn take(&mut self, pool: u32, op: FlashOp, errand: &Errand) {
        match op {
            FlashOp::Program { page } => self.program(pool, page, Cause::Host, errand),
            FlashOp::Copy { from, to } => self.copy(pool, from, to, errand.now),
            FlashOp::Erase { segment } => self.erase(pool, segment, errand.now),
        }
    }

    /// Programs a unit for the host or for a copy. The sectors of a host write were counted before.
    #[inline]
    fn program(&mut self, pool: u32, page: u32, cause: Cause, errand: &Errand) {
        if self.units_per_row > 1 {
            return self.fill(pool, page, cause, errand);
        }
        let op = self.prepare(pool, page, cause, errand);
        if errand.first != NONE {
            self.flash.after(errand.first, op);
        }
        let held = if errand.owner == BUFFER { self.unit } else { 0 };
        self.start(op, held, errand.now);
    }

    #[inline]
    fn prepare(&mut self, pool: u32, page: u32, cause: Cause, errand: &Errand) -> u32 {
        let (lane, rows) = (self.place(pool, page), self.rows_per_unit);
        let mut op = Op::new(Kind::Program, cause, lane, rows, errand.now);
        op.sectors = rows * self.row_sectors;
        op.owner = errand.owner;
        self.flash.prepare(op)
    }

    /// Queues a program that holds `held` sectors of the write buffer.
    fn start(&mut self, op: u32, held: u32, now: Nanos) {
        let it = self.flash.op(op);
        if held > 0 {
            it.held = held;
            it.epoch = self.acks.issue(held);
        }
        self.flash.queue(now, op);
    }

    /// Adds a unit to its row, and programs the row when it is full.
    fn fill(&mut self, pool: u32, page: u32, cause: Cause, errand: &Errand) {
        let row = page / self.units_per_row;
        let list = &self.open[pool as usize];
        let at = list.iter().position(|open| open.row == row).unwrap_or_else(|| {
            let op = self.prepare(pool, page, cause, errand);
            let list = &mut self.open[pool as usize];
            list.push(Open { row, op, units: 0, held: 0 });
            list.len() - 1
        });
        let open = &mut self.open[pool as usize][at];
        open.units += 1;
        open.held += if errand.owner == BUFFER { self.unit } else { 0 };
        let Open { op, units, held, .. } = *open;
        self.work.open += u64::from(self.unit);
        // The row is programmed only after every read-modify-write of its units has read.
        if errand.first != NONE && op != NONE {
            self.flash.after(errand.first, op);
        }
        if units < self.units_per_row {
            return;
        }
        self.open[pool as usize].swap_remove(at);
        self.work.open -= u64::from(self.row_sectors);
        let op = if op == NONE { self.prepare(pool, page, cause, errand) } else { op };
        // A row with buffered host data belongs to the buffer, even if a copy opened it: its end
        // releases the buffer and advances the flushes.
        if held > 0 {
            let it = self.flash.op(op);
            it.set_cause(Cause::Host);
            it.owner = BUFFER;
        }
        self.start(op, held, errand.now);
    }

    /// Returns whether a page is in a row that is not on flash yet.
    pub(super) fn is_open(&self, pool: u32, page: u32) -> bool {
        self.units_per_row > 1
            && self.open[pool as usize].iter().any(|open| open.row == page / self.units_per_row)
    }

    /// Programs a copy of each open row elsewhere, which a flush of a drive without power-loss
    /// protection requires.
    pub(super) fn write_aside(&mut self, now: Nanos) {
        for pool in 0..self.open.len() {
            for at in 0..self.open[pool].len() {
                let Open { row, units, .. } = self.open[pool][at];
                let sectors = u64::from(self.row_sectors);
                self.work.aside += u64::from(units * self.unit);
                self.work.sectors[Cause::Rmw as usize] += sectors;
                self.work.crossed[Cause::Rmw as usize] += sectors;
                if !self.timed {
                    self.flash.count(Kind::Program, Cause::Rmw, 1);
                    continue;
                }
                let errand = Errand { now, owner: BUFFER, first: NONE };
                let page = row * self.units_per_row;
                let op = self.prepare(pool as u32, page, Cause::Rmw, &errand);
                self.start(op, self.row_sectors, now);
            }
        }
    }

    fn copy(&mut self, pool: u32, from: u32, to: u32, now: Nanos) {
        let gc = Cause::DriveGc;
        let (unit, rows) = (u64::from(self.unit), self.rows_per_unit);
        self.work.sectors[gc as usize] += unit;
        let mut errand = Errand { now, owner: NONE, first: NONE };
        let stays = |back: &Back| back.lane(pool, from) == back.lane(pool, to);
        if self.copyback && self.units_per_row == 1 && stays(self) {
            let op = self.flash.prepare(Op::new(Kind::Move, gc, self.place(pool, to), rows, now));
            return self.flash.queue(now, op);
        }
        let row = if self.units_per_row == 1 { from } else { from / self.units_per_row };
        self.work.crossed[gc as usize] += unit;
        if self.units_per_row == 1 || self.copied != (pool, row) {
            self.copied = (pool, row);
            let sectors = rows * self.row_sectors.min(self.unit);
            self.work.crossed[gc as usize] += u64::from(sectors);
            errand.first = self.read(pool, from, rows, sectors, gc, now, NONE);
        }
        self.program(pool, to, gc, &errand);
    }

    /// Reads rows of a unit. Returns the operation, or `NONE` under the clock that only counts.
    #[allow(clippy::too_many_arguments, reason = "the side is part of the operation")]
    pub(super) fn read(
        &mut self,
        pool: u32,
        page: u32,
        rows: u32,
        sectors: u32,
        cause: Cause,
        now: Nanos,
        owner: u32,
    ) -> u32 {
        if !self.timed {
            self.flash.count(Kind::Read, cause, rows);
            return NONE;
        }
        let mut op = Op::new(Kind::Read, cause, self.place(pool, page), rows, now);
        (op.sectors, op.owner) = (sectors, owner);
        let op = self.flash.prepare(op);
        self.flash.queue(now, op);
        op
    }

    fn erase(&mut self, pool: u32, segment: u32, now: Nanos) {
        let lanes = if self.lane_pools { pool..pool + 1 } else { 0..self.lanes };
        for lane in lanes {
            let lane = self.flash.lane(lane, || segment);
            let op = self.flash.prepare(Op::new(Kind::Erase, Cause::DriveGc, lane, 1, now));
            self.flash.queue(now, op);
        }
    }

    /// Sets the clock while no operation is in progress.
    pub(super) fn set_timed(&mut self, timed: bool) {
        self.timed = timed;
        for open in self.open.iter_mut().flatten() {
            if open.op != NONE {
                self.flash.forget(open.op);
                open.op = NONE;
            }
        }
    }

    /// Returns the open rows as pool, row, units, and sectors of the write buffer.
    pub(super) fn rows(&self) -> impl Iterator<Item = [u32; 4]> + '_ {
        let lists = (0..).zip(&self.open);
        lists.flat_map(|(pool, list)| {
            list.iter().map(move |open| [pool, open.row, open.units, open.held])
        })
    }

    /// Restores an open row with `units` units, which count as written by the host.
    pub(super) fn reopen(&mut self, pool: u32, row: u32, units: u32, held: u32) {
        let sectors = u64::from(units) * u64::from(self.unit);
        self.work.open += sectors;
        self.work.sectors[Cause::Host as usize] += sectors;
        self.open[pool as usize].push(Open { row, op: NONE, units, held });
    }

    /// Returns the number of operations prepared for open rows.
    pub(super) fn prepared(&self) -> usize {
        self.open.iter().flatten().filter(|open| open.op != NONE).count()
    }

    /// Returns the sectors in open rows.
    pub(super) fn open_sectors(&self) -> u64 {
        let units: u64 = self.open.iter().flatten().map(|open| u64::from(open.units)).sum();
        units * u64::from(self.unit)
    }
}
