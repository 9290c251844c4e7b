//! A drive behind its block interface: a map, garbage collection, a write buffer and timed flash.
//!
//! Both clocks share all of this code. Under [`Clock::Counts`] every command completes at once.
//! Under [`Clock::Timed`] flash operations take time. The drive's decisions depend only on the
//! order of its commands, so the same commands give the same counters under both clocks.
//!
//! Invariants
//! - The map look-ups and changes of a command happen when it is submitted, all of them and in
//!   order.
//! - A command completes once: at submission, or later in [`Drive::advance`].
//! - Every sector written by the host is handed to the flash once, waits in the write buffer, or
//!   was absorbed there.
//!
//! A partial write of a mapped unit is a read-modify-write; in an unmapped unit the rest becomes
//! zeros. A trim has no effect on units that it covers only partly. Reads of unmapped sectors cost
//! nothing. Modelled flash does not fail, except on a raw drive, which offers segments to a layer
//! that translates.

mod acks;
mod ahead;
mod back;
mod counted;
mod gate;
mod handles;
mod hint;
mod raw;
pub(crate) mod register;
mod saved;
mod tally;
mod window;

use std::collections::VecDeque;

use hostftl_core::{CAUSES, Cause, Command, DeviceError, DeviceInfo, Nanos, Tally};

use crate::flash::NONE;
use crate::model::{Clock, Ended};
use crate::pool::Pool;
use crate::spec::DriveSpec;
use crate::text::DriveError;
use crate::work::{DriveWork, Spent};
use crate::zoned::Zoned;
use back::{BUFFER, Back, Errand};
use counted::Counted;
use gate::{Gate, Passage};
use handles::Sent;
use tally::{book, take};
use window::{Data, Window};

/// A command in flight and the number of operations that it waits for.
#[derive(Clone, Copy, Debug)]
struct Slot {
    pending: u32,
    /// Result that the command will have.
    result: Result<(), DeviceError>,
    passage: Passage,
}

impl Slot {
    const FREE: Slot = Slot { pending: 0, result: Ok(()), passage: Passage::NONE };
}

/// The part of a command that is in one map unit.
#[derive(Clone, Copy, Debug)]
struct Part {
    unit: u32,
    /// First sector within the unit.
    offset: u32,
    sectors: u32,
}

/// A flash drive with its own translation, or a raw drive.
#[derive(Debug)]
pub struct Drive {
    spec: DriveSpec,
    pools: Vec<Pool>,
    back: Back,
    /// Host link and controller; `None` if they take no time.
    gate: Option<Gate>,
    window: Option<Window>,
    slots: Vec<Slot>,
    /// Segments of a raw drive, which has no pools.
    raw: Option<Zoned>,
    /// Sectors of programs that a raw drive refused, by cause.
    refused: [u64; CAUSES],
    /// Sectors of programs by placement id.
    sent: Sent,
}

impl Drive {
    /// Makes an empty drive under [`Clock::Timed`].
    ///
    /// # Errors
    /// When the model does not fit into memory.
    pub fn new(spec: &DriveSpec) -> Result<Self, DriveError> {
        spec.fits(None)?;
        let count = if spec.zoned.is_some() { 0 } else { spec.pool_count() };
        let pools = (0..count).map(|index| Pool::new(spec.pool(index)));
        let pools: Result<_, _> = pools.collect();
        let name = spec.name.clone();
        let raw = spec.zoned.map(|zoned| Zoned::new(zoned).expect("the spec was checked"));
        Ok(Drive {
            pools: pools.map_err(|source| DriveError::Pool { name, source })?,
            back: Back::new(spec),
            gate: spec.link.map(Gate::new),
            window: spec.merge.then(|| Window::new(spec.merged_units())),
            slots: vec![Slot::FREE; 1024],
            raw,
            refused: [0; CAUSES],
            sent: Sent::new(spec),
            spec: spec.clone(),
        })
    }

    /// Returns the drive's interface as the host sees it.
    pub fn info(&self) -> DeviceInfo {
        self.spec.device_info()
    }

    /// Returns the description of the drive.
    pub fn spec(&self) -> &DriveSpec {
        &self.spec
    }

    /// Submits a command at time `now`. Returns its result if it completes at once. Otherwise
    /// `slot` identifies the command until [`Drive::advance`] completes it.
    ///
    /// # Panics
    /// When the command is not a device command.
    pub fn submit(
        &mut self,
        now: Nanos,
        slot: u32,
        command: &Command,
    ) -> Option<Result<(), DeviceError>> {
        if slot as usize >= self.slots.len() {
            self.slots.resize(2 * slot as usize, Slot::FREE);
        }
        let done = self.serve(now, slot, command);
        let Some(gate) = self.gate.as_mut().filter(|_| self.back.timed) else { return done };
        let passage = Passage::of(command);
        match done {
            Some(result) => {
                gate.pass(now, passage, Ended { slot, result, spent: Spent::default() })
            }
            None => self.slots[slot as usize].passage = passage,
        }
        None
    }

    /// Serves a command like [`Drive::submit`], without the host link.
    fn serve(
        &mut self,
        now: Nanos,
        slot: u32,
        command: &Command,
    ) -> Option<Result<(), DeviceError>> {
        if self.raw.is_some() {
            return self.submit_raw(now, slot, command);
        }
        let in_range = |lba: u64, sectors: u64| {
            lba.checked_add(sectors).is_some_and(|end| end <= self.spec.exported)
        };
        let over = match command {
            Command::Read { lba, into, .. } if !in_range(*lba, into.sectors().into()) => {
                return Some(Err(DeviceError::Media));
            }
            Command::Program { lba, tally, .. } if !in_range(*lba, tally.total().into()) => {
                return Some(Err(DeviceError::Media));
            }
            Command::Reset { lba, sectors, .. } if !in_range(*lba, *sectors) => {
                return Some(Err(DeviceError::Media));
            }
            Command::Read { lba, into, cause, .. } => {
                self.read(now, slot, *lba, into.sectors(), *cause)
            }
            Command::Program { lba, tally, placement, .. } => {
                self.write(now, slot, *lba, tally, *placement)
            }
            Command::Reset { lba, sectors, .. } => {
                self.trim(*lba, *sectors);
                true
            }
            Command::Flush { .. } => self.flush(now, slot),
            Command::Mark { .. } => return Some(Err(DeviceError::Unsupported)),
            other => unreachable!("{other:?} is not a device command"),
        };
        over.then_some(Ok(()))
    }

    /// Returns the time of the next event.
    #[inline]
    pub fn next_at(&self) -> Option<Nanos> {
        let flash = self.back.flash.next_at();
        match self.gate.as_ref().and_then(Gate::next_at) {
            Some(gate) => Some(flash.map_or(gate, |flash| flash.min(gate))),
            None => flash,
        }
    }

    /// Advances the time until a command completes, but not beyond `limit`. Returns the time of the
    /// last event. An event must be pending.
    pub fn advance(&mut self, limit: Nanos, ended: &mut VecDeque<Ended>) -> Nanos {
        loop {
            let now = self.step(ended);
            if !ended.is_empty() || self.next_at().is_none_or(|at| at > limit) {
                return now;
            }
        }
    }

    /// Executes the next event and returns its time.
    #[inline]
    fn step(&mut self, ended: &mut VecDeque<Ended>) -> Nanos {
        if let Some(gate) = &mut self.gate
            && let Some(at) = gate.next_at()
            && self.back.flash.next_at().is_none_or(|flash| at < flash)
        {
            ended.extend(gate.pop());
            return at;
        }
        let now = self.back.flash.advance();
        self.settle(now, ended);
        now
    }

    /// Completes the commands whose operations have ended, and the writes and flushes that now need
    /// not wait for the write buffer. If the drive has a host link, they pass it next.
    fn settle(&mut self, now: Nanos, ended: &mut VecDeque<Ended>) {
        let Drive { slots, gate, back, .. } = self;
        let Back { flash, acks, .. } = back;
        let mut complete = |slot: u32, passage: Passage, result, spent| {
            let end = Ended { slot, result, spent };
            match gate {
                Some(gate) => gate.pass(now, passage, end),
                None => ended.push_back(end),
            }
        };
        let mut released = false;
        flash.each_over(|over| {
            if over.owner == BUFFER {
                acks.release(over.held, over.epoch);
                released = true;
                return;
            }
            let slot = &mut slots[over.owner as usize];
            slot.pending -= 1;
            if slot.pending == 0 {
                let result = std::mem::replace(&mut slot.result, Ok(()));
                complete(over.owner, slot.passage, result, over.spent);
            }
        });
        while released && let Some(waited) = acks.next() {
            let spent = Spent { queue: now - waited.since, ..Spent::default() };
            complete(waited.slot, slots[waited.slot as usize].passage, Ok(()), spent);
        }
    }

    /// Returns whether no command and no operation is in flight.
    pub fn idle(&self) -> bool {
        let passed = self.gate.as_ref().is_none_or(|gate| gate.next_at().is_none());
        self.back.flash.idle() && self.back.acks.idle() && passed
    }

    /// Sets the clock.
    ///
    /// # Panics
    /// When a command or an operation is in flight.
    pub fn set_clock(&mut self, clock: Clock) {
        assert!(self.idle(), "the clock changes only when the drive is idle");
        self.back.set_timed(clock == Clock::Timed);
    }

    /// Returns the work done so far.
    pub fn work(&self) -> DriveWork {
        let (waiting, absorbed) = match &self.window {
            Some(window) => (window.waiting, window.absorbed),
            None => (Default::default(), self.refused),
        };
        DriveWork { flash: self.back.flash.work(), waiting, absorbed, ..self.back.work }
    }

    /// Returns the number of erases of each segment. A segment is the unit that the drive erases at
    /// once.
    pub fn erased(&self) -> impl Iterator<Item = u32> {
        let raw = self.raw.iter().flat_map(Zoned::erased);
        self.pools.iter().flat_map(Pool::erased).chain(raw)
    }

    /// Returns the map units that hold data; for a raw drive, the written ones.
    pub fn mapped(&self) -> u64 {
        self.pools.iter().map(Pool::mapped).sum::<u64>()
            + self.raw.as_ref().map_or(0, Zoned::written)
    }

    /// Returns α of all pools together: physical map units in circulation divided by mapped units.
    pub fn alpha(&self) -> f64 {
        let physical: f64 = self.pools.iter().map(|pool| pool.alpha() * pool.mapped() as f64).sum();
        physical / self.mapped() as f64
    }

    /// Returns the bytes of all tables.
    pub fn bytes(&self) -> u64 {
        let raw = self.raw.as_ref().map_or(0, Zoned::bytes);
        self.pools.iter().map(|pool| pool.bytes()).sum::<u64>() + raw
    }

    /// Checks every invariant, including the state of every page. No operation may be in progress.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        if !self.idle() {
            return Err("the drive is not idle");
        }
        if self.back.flash.in_use() != self.back.prepared() {
            return Err("a flash operation was lost");
        }
        let work = self.work();
        if work.open != self.back.open_sectors() {
            return Err("the sectors in open rows differ from their count");
        }
        let row = u64::from(self.spec.shape.row_sectors);
        if work.flash.programs * row != work.programmed() - work.open {
            return Err("the programmed rows differ from the sectors of all causes");
        }
        self.raw.iter().try_for_each(Zoned::check)?;
        self.pools.iter().try_for_each(Pool::check)
    }

    /// Splits a range into its parts, one for each map unit that it touches.
    fn parts(&self, lba: u64, sectors: u64) -> impl Iterator<Item = Part> + use<> {
        let unit = u64::from(self.spec.map_unit);
        let (mut at, end) = (lba, lba + sectors);
        std::iter::from_fn(move || {
            let offset = at % unit;
            let sectors = (unit - offset).min(end - at);
            let part =
                Part { unit: (at / unit) as u32, offset: offset as u32, sectors: sectors as u32 };
            at += sectors;
            (sectors > 0).then_some(part)
        })
    }

    /// Returns the pool of a map unit and the number of the unit in that pool.
    #[inline]
    fn home(&self, unit: u32) -> (u32, u32) {
        match self.pools.len() as u32 {
            1 => (0, unit),
            pools => (unit % pools, unit / pools),
        }
    }

    fn read(&mut self, now: Nanos, slot: u32, lba: u64, sectors: u32, cause: Cause) -> bool {
        let mut pending = 0;
        for Part { unit, offset, sectors } in self.parts(lba, sectors.into()) {
            let (pool, local) = self.home(unit);
            if let Some(window) = &self.window
                && window.covers(unit, window::mask(offset, sectors))
            {
                self.back.work.hits += 1;
                continue;
            }
            let Some(page) = self.pools[pool as usize].find(local) else { continue };
            if self.back.is_open(pool, page) {
                self.back.work.hits += 1;
                continue;
            }
            let row = self.spec.shape.row_sectors;
            let rows = match self.spec.units_per_row() {
                1 => (offset + sectors).div_ceil(row) - offset / row,
                _ => 1,
            };
            self.back.work.crossed[cause as usize] += u64::from(sectors);
            self.back.read(pool, page, rows, sectors, cause, now, slot);
            pending += 1;
        }
        self.started(slot, pending)
    }

    fn write(&mut self, now: Nanos, slot: u32, lba: u64, tally: &Tally, placement: u8) -> bool {
        let (mut pending, mut left, total) = (0, *tally, tally.total());
        let buffered = self.spec.write_buffer > 0;
        let owner = if buffered { BUFFER } else { slot };
        let whole = self.spec.map_unit;
        self.sent.count(placement, total);
        for Part { unit, offset, sectors } in self.parts(lba, total.into()) {
            pending += 1;
            let tally = if sectors == total { *tally } else { take(&mut left, sectors) };
            let mut data = Data { unit, mask: u128::MAX, tally, placement };
            if let Some(window) = &mut self.window {
                if sectors == whole {
                    window.forget(unit);
                } else {
                    data.mask = window::mask(offset, sectors);
                    match window.add(data, window::mask(0, whole)) {
                        Some(other) => data = other,
                        None => continue,
                    }
                }
            } else if sectors < whole {
                data.mask = 0;
            }
            self.program(now, owner, &data);
        }
        if buffered && self.back.timed {
            self.back.acks.write(slot, now)
        } else {
            self.started(slot, pending)
        }
    }

    /// Records that `pending` operations of a command have started. Returns whether the command is
    /// already complete.
    fn started(&mut self, slot: u32, pending: u32) -> bool {
        if !self.back.timed || pending == 0 {
            return true;
        }
        self.slots[slot as usize].pending = pending;
        false
    }

    /// Programs a map unit. If only some of its sectors are new, the rest is read first.
    #[inline]
    fn program(&mut self, now: Nanos, owner: u32, data: &Data) {
        let (pool, local) = self.home(data.unit);
        let whole = self.spec.map_unit;
        let rest = whole - data.tally.total();
        let first = if rest > 0 { self.read_rest(now, data, rest) } else { NONE };
        let Drive { pools, back, .. } = self;
        book(&mut back.work.sectors, &data.tally);
        // `home` is borrowed from `pools`, apart from `back`, so that the sink can use `back`.
        book(&mut back.work.crossed, &data.tally);
        let home = &mut pools[pool as usize];
        if !back.timed {
            let held = if owner == BUFFER { whole } else { 0 };
            return home.write_to(local, data.placement, &mut Counted { back, pool, held });
        }
        let errand = Errand { now, owner, first };
        home.write_to(local, data.placement, &mut |op| back.take(pool, op, &errand));
    }

    /// Counts the unchanged sectors of a map unit as programmed, and reads them if the unit is
    /// mapped. Returns the read operation, or `NONE` if there is none or if it takes no time.
    fn read_rest(&mut self, now: Nanos, data: &Data, rest: u32) -> u32 {
        let (pool, local) = self.home(data.unit);
        let Drive { pools, back, spec, .. } = self;
        let tally = Tally::single(Cause::Rmw, rest);
        book(&mut back.work.sectors, &tally);
        book(&mut back.work.crossed, &tally);
        let Some(page) = pools[pool as usize].find(local) else { return NONE };
        back.work.rmw += 1;
        // The row is still in RAM, so its old data needs no flash read.
        if back.is_open(pool, page) {
            return NONE;
        }
        let rows = window::rows_left(spec, data.mask);
        let sectors = rows * spec.shape.row_sectors.min(spec.map_unit);
        back.work.crossed[Cause::Rmw as usize] += u64::from(sectors);
        back.read(pool, page, rows, sectors, Cause::Rmw, now, NONE)
    }

    fn trim(&mut self, lba: u64, sectors: u64) {
        let unit = u64::from(self.spec.map_unit);
        let (first, end) = (lba.div_ceil(unit), (lba + sectors) / unit);
        for unit in first as u32..end.max(first) as u32 {
            if let Some(window) = &mut self.window {
                window.forget(unit);
            }
            let (pool, local) = self.home(unit);
            self.pools[pool as usize].trim(local);
        }
    }

    /// Flushes the write buffer. A drive with power-loss protection completes the flush at once;
    /// any other drive programs all buffered data first.
    fn flush(&mut self, now: Nanos, slot: u32) -> bool {
        if self.spec.plp || self.spec.write_buffer == 0 {
            return true;
        }
        while let Some(data) = self.window.as_mut().and_then(Window::pop) {
            self.program(now, BUFFER, &data);
        }
        self.back.write_aside(now);
        self.back.acks.flush(slot, now)
    }
}
