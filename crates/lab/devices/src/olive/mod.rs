//! An array of eMMC chips behind an FPGA: chips on buses, as many controllers as chips or fewer,
//! and ports of two kinds into the processor.
//!
//! The interleave splits a request into pieces. Each piece occupies its chip and a controller for
//! its whole time, and its bus for the transfer. All pieces of a request pass the host and its
//! port, one request at a time: before the chips for a write, after them for a read.
//!
//! The chips translate internally. The model represents this only by the distribution of their
//! write times, and by a longer time for a write that does not continue, in the array's addresses,
//! where the chip's previous write ended. Each stripe therefore begins with a jump, as if it were
//! in its own unit of the chip's map.
//!
//! A raw array has no interleave: each chip is a parallel unit, and the host places the data. An
//! erase takes no time, because the board's driver has none.
//!
//! Invariants
//! - A chip, a controller and a bus serve one piece at a time, in the order of arrival.

pub(crate) mod register;
mod spec;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Read, Write};

use hostftl_core::{About, Cause, Command, DeviceError, DeviceInfo, MetaBuf, Nanos, Verdict};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::plain::{Counts, range};
use hostftl_drives::pool::LoadError;
use hostftl_drives::zoned::Zoned;
use hostftl_drives::{Clock, Ended, Model};
use hostftl_drives::{DriveWork, Spent};
pub use spec::{OliveSpec, Port, SEGMENT};

/// Waits of pieces, in ns, and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// Number of pieces.
    pub pieces: u64,
    /// Wait for the chip.
    pub chip: Nanos,
    /// Wait for the bus while the chip was free.
    pub bus: Nanos,
    /// Wait for the controller while chip and bus were free.
    pub controller: Nanos,
    /// Pieces that waited for a bus or a controller.
    pub hit: u64,
}

/// A request in flight, ordered by time and then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Nanos,
    number: u64,
    slot: u32,
    since: Nanos,
    next: Next,
}

/// Next step of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// Write of `sectors` sectors from `lba` on to the chips.
    Chips { lba: u64, sectors: u32 },
    /// Transfer of `sectors` read sectors to the host.
    Host { sectors: u32 },
    /// Completion.
    End,
}

/// A modelled array of eMMC chips.
#[derive(Debug)]
pub struct Olive {
    spec: OliveSpec,
    due: BinaryHeap<Reverse<Due>>,
    number: u64,
    chips: Vec<Nanos>,
    /// End of the last write of each chip, in the array's addresses.
    ends: Vec<u64>,
    raw: Option<Zoned>,
    buses: Vec<Nanos>,
    controllers: Vec<Nanos>,
    host: Nanos,
    dice: Xoshiro256PlusPlus,
    timed: bool,
    conflicts: Conflicts,
    counts: Counts,
}

impl Olive {
    /// Makes an idle array.
    pub fn new(spec: &OliveSpec) -> Self {
        Olive {
            due: BinaryHeap::new(),
            number: 0,
            chips: vec![0; spec.chips],
            ends: vec![0; spec.chips],
            raw: spec.zoned().map(|zoned| Zoned::new(zoned).expect("the spec was checked")),
            buses: vec![0; spec.buses],
            controllers: vec![0; spec.controllers],
            host: 0,
            dice: Xoshiro256PlusPlus::seed_from_u64(0x011e),
            timed: true,
            conflicts: Conflicts::default(),
            counts: Counts::default(),
            spec: spec.clone(),
        }
    }

    /// Returns the waits of all pieces so far.
    pub fn conflicts(&self) -> Conflicts {
        self.conflicts
    }

    /// Writes the state: the segments of a raw array. An array with block access has no state that
    /// affects later commands.
    ///
    /// # Errors
    /// When writing to `out` fails.
    pub fn save(&self, out: &mut impl Write) -> io::Result<()> {
        self.raw.as_ref().map_or(Ok(()), |raw| raw.save(out))
    }

    /// Restores the array that [`Olive::save`] wrote.
    ///
    /// # Errors
    /// When the data is not an array that was saved from `spec`.
    pub fn load(spec: &OliveSpec, from: &mut impl Read) -> Result<Self, LoadError> {
        let raw = spec.zoned().map(|zoned| Zoned::load(zoned, from)).transpose()?;
        Ok(Olive { raw, ..Olive::new(spec) })
    }

    fn plan(&mut self, at: Nanos, slot: u32, since: Nanos, next: Next) {
        self.number += 1;
        self.due.push(Reverse(Due { at, number: self.number, slot, since, next }));
    }

    /// Reserves the host and its port. Returns the end of the reservation.
    fn pass_host(&mut self, now: Nanos, sectors: u32, is_write: bool) -> Nanos {
        let took = self.spec.host_time(sectors, is_write);
        self.host = now.max(self.host) + took;
        self.counts.busy.bus += took;
        self.host
    }

    /// Reserves the chips for a range. Returns the time at which the last one ends.
    fn pass_chips(&mut self, now: Nanos, lba: u64, sectors: u32, is_write: bool) -> Nanos {
        let chips = self.chips.len() as u64;
        if self.raw.is_some() {
            let each = self.spec.sectors / chips;
            return self.serve(now, (lba / each) as usize, (lba, sectors), is_write);
        }
        let wide = u64::from(self.spec.interleave);
        let (mut at, end, mut last) = (lba, lba + u64::from(sectors), now);
        while at < end {
            let part = (wide - at % wide).min(end - at);
            let chip = (at / wide % chips) as usize;
            last = last.max(self.serve(now, chip, (at, part as u32), is_write));
            at += part;
        }
        last
    }

    /// Serves one piece on one chip and returns its end. `at` is its first sector in the array's
    /// addresses.
    fn serve(
        &mut self,
        now: Nanos,
        chip: usize,
        (at, sectors): (u64, u32),
        is_write: bool,
    ) -> Nanos {
        let mut took = self.spec.chip_time(sectors, is_write);
        if is_write {
            if self.ends[chip] != at {
                took = self.spec.elsewhere_time(sectors);
            }
            self.ends[chip] = at + u64::from(sectors);
        }
        if is_write && self.spec.spread {
            let below: f64 = self.dice.random();
            took = (-(1.0 - below).ln() * took as f64).round() as Nanos;
        }
        let transfer = self.spec.transfer(sectors).min(took);
        let bus = chip % self.buses.len();
        let controller = bus % self.controllers.len();
        let free = now.max(self.chips[chip]);
        let on_bus = free.max(self.buses[bus]);
        let begin = on_bus.max(self.controllers[controller]);
        let conflicts = &mut self.conflicts;
        conflicts.pieces += 1;
        conflicts.chip += free - now;
        conflicts.bus += on_bus - free;
        conflicts.controller += begin - on_bus;
        conflicts.hit += u64::from(begin > free);
        self.buses[bus] = begin + transfer;
        self.chips[chip] = begin + took;
        self.controllers[controller] = begin + took;
        if is_write {
            self.counts.busy.programs += took
        } else {
            self.counts.busy.reads[Cause::Host as usize] += took
        }
        begin + took
    }
}

impl Model for Olive {
    fn info(&self) -> DeviceInfo {
        self.spec.device_info()
    }

    fn submit(
        &mut self,
        now: Nanos,
        slot: u32,
        command: &Command,
    ) -> Option<Result<(), DeviceError>> {
        if let Some(Err(why)) = self.raw.as_mut().map(|raw| raw.submit(command, &mut |_| {})) {
            return Some(Err(why.into()));
        }
        let (lba, sectors) = match range(command, self.spec.sectors) {
            Ok(range) => range,
            Err(answer) => return Some(answer),
        };
        self.counts.note(command);
        if !self.timed {
            return Some(Ok(()));
        }
        match command {
            Command::Program { .. } => {
                let at = self.pass_host(now, sectors, true);
                self.plan(at, slot, now, Next::Chips { lba, sectors });
            }
            _ => {
                let at = self.pass_chips(now, lba, sectors, false);
                self.plan(at, slot, now, Next::Host { sectors });
            }
        }
        None
    }

    fn report(&mut self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        let raw = self.raw.as_ref().ok_or(DeviceError::Unsupported)?;
        raw.report(about, into)
    }

    fn is_raw(&self) -> bool {
        self.raw.is_some()
    }

    fn check(&self) -> Result<(), &'static str> {
        self.raw.as_ref().map_or(Ok(()), Zoned::check)
    }

    fn next_at(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse(due)| due.at)
    }

    fn advance(&mut self, limit: Nanos, ended: &mut VecDeque<Ended>) -> Nanos {
        loop {
            let Reverse(due) = self.due.pop().expect("an event is pending");
            let Due { at: now, slot, since, .. } = due;
            match due.next {
                Next::Chips { lba, sectors } => {
                    let at = self.pass_chips(now, lba, sectors, true);
                    self.plan(at, slot, since, Next::End);
                }
                Next::Host { sectors } => {
                    let at = self.pass_host(now, sectors, false);
                    self.plan(at, slot, since, Next::End);
                }
                Next::End => {
                    let spent = Spent { die: now - since, ..Spent::default() };
                    ended.push_back(Ended { slot, result: Ok(()), spent });
                }
            }
            if !ended.is_empty() || self.next_at().is_none_or(|at| at > limit) {
                return now;
            }
        }
    }

    fn idle(&self) -> bool {
        self.due.is_empty()
    }

    fn set_clock(&mut self, clock: Clock) {
        assert!(self.idle(), "the clock changes only when the drive is idle");
        self.timed = clock == Clock::Timed;
    }

    fn work(&self) -> DriveWork {
        self.counts.work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_core::{Gather, Payload, Piece, Tally, Target};

    fn ends(spec: &OliveSpec, reads: &[(u64, u32)]) -> (Vec<Nanos>, Conflicts) {
        let mut olive = Olive::new(spec);
        for (slot, &(lba, sectors)) in reads.iter().enumerate() {
            let mut payload = Payload::issue(0, sectors);
            let into = Target::Data(payload.view_mut_sectors(0, sectors));
            let read = Command::Read { device: 0, lba, into, cause: Cause::Host };
            assert_eq!(olive.submit(0, slot as u32, &read), None);
            read.void();
            payload.void();
        }
        let (mut ended, mut at) = (VecDeque::new(), Vec::new());
        while !olive.idle() {
            let now = olive.advance(0, &mut ended);
            at.extend(ended.drain(..).map(|_| now));
        }
        (at, olive.conflicts())
    }

    #[test]
    fn a_read_passes_its_chip_and_then_the_host() {
        let spec = OliveSpec::default();
        let (at, _) = ends(&spec, &[(0, 8)]);
        assert_eq!(at, [70_000 + 4 * 4_750 + 88_000 + 4 * 2_100]);
        let (at, conflicts) = ends(&spec, &[(0, 8), (8, 8)]);
        assert_eq!(at[1] - at[0], 96_400, "the host is slower than a chip");
        assert_eq!(conflicts, Conflicts { pieces: 2, chip: 89_000, ..Conflicts::default() });
    }

    #[test]
    fn chips_sharing_a_bus_or_controller_conflict() {
        let two = [(0, 8), (8, 8)];
        let spec = OliveSpec { interleave: 8, ..OliveSpec::default() };
        assert_eq!(ends(&spec, &two).1, Conflicts { pieces: 2, ..Conflicts::default() });
        let one_bus = OliveSpec { buses: 1, ..spec.clone() };
        // One bus has one controller, which is busy longer than the bus.
        let (bus, controller) = (19_000, 70_000);
        let waits = Conflicts { pieces: 2, bus, controller, hit: 1, ..Conflicts::default() };
        assert_eq!(ends(&one_bus, &two).1, waits);
        let one_controller = OliveSpec { controllers: 1, ..spec };
        let waits = Conflicts { pieces: 2, controller: 89_000, hit: 1, ..Conflicts::default() };
        assert_eq!(ends(&one_controller, &two).1, waits);
    }

    fn write(olive: &mut Olive, lba: u64, sectors: u32) -> Result<Nanos, DeviceError> {
        let gather = Gather::from_iter([Piece::zero_sectors(sectors)]);
        let tally = Tally::single(Cause::Host, sectors);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        let began = *olive.chips.iter().max().expect("there are chips");
        if let Some(done) = olive.submit(began, 0, &command) {
            return done.map(|()| 0);
        }
        Ok(olive.advance(Nanos::MAX, &mut VecDeque::new()) - began)
    }

    #[test]
    fn a_write_elsewhere_takes_its_chip_longer() {
        let spec = OliveSpec { spread: false, ..OliveSpec::default() };
        let mut olive = Olive::new(&spec);
        let times = [0, 8, 4096 * 4 + 64].map(|lba| write(&mut olive, lba, 8).unwrap());
        assert_eq!(times[0], spec.host_time(8, true) + 685_000);
        assert_eq!(times[2] - times[0], 685_000 / 3, "it goes to the first chip too");
    }

    #[test]
    fn each_stripe_begins_with_a_jump() {
        let spec = OliveSpec { spread: false, interleave: 16, ..OliveSpec::default() };
        let mut olive = Olive::new(&spec);
        let times = [0, 8, 64, 72].map(|lba| write(&mut olive, lba, 8).unwrap());
        assert_eq!(times.map(|took| took - times[0]), [0, 0, 685_000 / 3, 0]);
    }

    #[test]
    fn a_raw_array_is_written_in_order_and_its_chips_are_its_units() {
        let spec = OliveSpec { spread: false, raw: true, ..OliveSpec::default() };
        let mut olive = Olive::new(&spec);
        assert!(write(&mut olive, 0, 8).is_ok());
        assert_eq!(write(&mut olive, 0, 8), Err(DeviceError::Unsupported));
        let each = spec.sectors / 4;
        for lba in [8, each, 2 * each, 3 * each] {
            assert!(write(&mut olive, lba, 8).is_ok());
        }
        assert!(olive.chips.iter().all(|until| *until > 0));
        assert!(olive.is_raw() && olive.check().is_ok());
    }
}
