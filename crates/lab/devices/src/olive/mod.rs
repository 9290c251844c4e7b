//! An array of eMMC chips behind an FPGA: chips on buses, as many controllers as chips or fewer,
//! and ports of two kinds into the processor.
//!
//! The interleave splits a request into pieces. Each piece occupies its chip and a controller for
//! its whole time, and its bus for the transfer. All pieces of a request pass the host and its
//! port, one request at a time: before the chips for a write, after them for a read. Before the
//! chips, the host also prepares each piece after the first one, again one request at a time.
//!
//! The driver limits the commands to chips in progress, and the writes in progress per chip.
//!
//! The chips translate internally. The model represents this only by a longer time for a write that
//! does not continue, in the array's addresses, where the chip's previous write ended. Each stripe
//! therefore begins with a jump, as if it were in its own unit of the chip's map.
//!
//! A raw array has no interleave: each chip is a parallel unit, and the host places the data. An
//! erase takes no time, because the board's driver has none.
//!
//! Invariants
//! - A bus serves one piece at a time; a chip and a controller serve one read, or the configured
//!   number of writes. All serve pieces in the order of arrival.

pub(crate) mod register;
mod spec;
mod station;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Read, Write};

use hostftl_core::{About, Cause, Command, DeviceError, DeviceInfo, MetaBuf, Nanos, Verdict};

use crate::plain::{Counts, range};
use hostftl_drives::pool::LoadError;
use hostftl_drives::zoned::Zoned;
use hostftl_drives::{Clock, Ended, Model};
use hostftl_drives::{DriveWork, Spent};
pub use spec::{OliveSpec, Port, SEGMENT};
use station::Station;

/// Waits of pieces, in ns, and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// Number of pieces.
    pub pieces: u64,
    /// Wait for the chip after the command was sent.
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
    /// Preparation of the pieces of a range.
    Split(Range),
    /// Commands to the chips for a range.
    Chips(Range),
    /// Transfer of `sectors` read sectors to the host.
    Host { sectors: u32 },
    /// Completion.
    End,
}

/// The sectors of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    lba: u64,
    sectors: u32,
    is_write: bool,
}

/// A modelled array of eMMC chips.
#[derive(Debug)]
pub struct Olive {
    spec: OliveSpec,
    due: BinaryHeap<Reverse<Due>>,
    number: u64,
    chips: Vec<Station>,
    /// End of the last write of each chip, in the array's addresses.
    ends: Vec<u64>,
    raw: Option<Zoned>,
    buses: Vec<Nanos>,
    controllers: Vec<Station>,
    /// Ends of the latest commands to chips, one for each that may be in progress.
    commands: Station,
    host: Nanos,
    /// Time until which the host prepares pieces.
    preparing: Nanos,
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
            chips: vec![Station::new(spec.writes_per_chip); spec.chips],
            ends: vec![0; spec.chips],
            raw: spec.zoned().map(|zoned| Zoned::new(zoned).expect("the spec was checked")),
            buses: vec![0; spec.buses],
            controllers: vec![Station::new(spec.writes_per_chip); spec.controllers],
            commands: Station::new(spec.commands),
            host: 0,
            preparing: 0,
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

    /// Returns the pieces of a range: chip, first sector and length.
    fn pieces(&self, range: Range) -> impl Iterator<Item = (usize, u64, u32)> + use<> {
        let chips = self.chips.len() as u64;
        let wide = match &self.raw {
            Some(_) => self.spec.sectors / chips,
            None => u64::from(self.spec.interleave),
        };
        let (mut at, end) = (range.lba, range.lba + u64::from(range.sectors));
        std::iter::from_fn(move || {
            let part = (wide - at % wide).min(end - at);
            let piece = ((at / wide % chips) as usize, at, part as u32);
            at += part;
            (part > 0).then_some(piece)
        })
    }

    /// Plans the commands of a request to the chips for the time when its pieces are prepared.
    fn split(&mut self, now: Nanos, slot: u32, since: Nanos, range: Range) {
        let further = self.pieces(range).count() as Nanos - 1;
        let mut at = now;
        if further > 0 {
            at = now.max(self.preparing) + further * self.spec.piece_time;
            self.preparing = at;
        }
        self.plan(at, slot, since, Next::Chips(range));
    }

    /// Reserves the chips for a range. Returns the time at which the last one ends.
    fn pass_chips(&mut self, now: Nanos, range: Range) -> Nanos {
        let pieces = self.pieces(range);
        pieces.map(|piece| self.serve(now, piece, range.is_write)).fold(now, Nanos::max)
    }

    /// Serves one piece on one chip and returns its end.
    fn serve(
        &mut self,
        now: Nanos,
        (chip, at, sectors): (usize, u64, u32),
        is_write: bool,
    ) -> Nanos {
        let mut took = self.spec.chip_time(sectors, is_write);
        if is_write {
            if self.ends[chip] != at {
                took = self.spec.elsewhere_time(sectors);
            }
            self.ends[chip] = at + u64::from(sectors);
        }
        let transfer = self.spec.transfer(sectors).min(took);
        let bus = chip % self.buses.len();
        let controller = bus % self.controllers.len();
        let sent = now.max(self.commands.first_free());
        let free = sent.max(self.chips[chip].free(is_write));
        let on_bus = free.max(self.buses[bus]);
        let begin = on_bus.max(self.controllers[controller].free(is_write));
        let end = begin + took;
        let conflicts = &mut self.conflicts;
        conflicts.pieces += 1;
        conflicts.chip += free - sent;
        conflicts.bus += on_bus - free;
        conflicts.controller += begin - on_bus;
        conflicts.hit += u64::from(begin > free);
        self.buses[bus] = begin + transfer;
        self.chips[chip].reserve(end, is_write);
        self.controllers[controller].reserve(end, is_write);
        self.commands.reserve_one(end);
        if is_write {
            self.counts.busy.programs += took
        } else {
            self.counts.busy.reads[Cause::Host as usize] += took
        }
        end
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
        let is_write = matches!(command, Command::Program { .. });
        let range = Range { lba, sectors, is_write };
        if is_write {
            let at = self.pass_host(now, sectors, true);
            self.plan(at, slot, now, Next::Split(range));
        } else {
            self.split(now, slot, now, range);
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
                Next::Split(range) => self.split(now, slot, since, range),
                Next::Chips(range) => {
                    let at = self.pass_chips(now, range);
                    let next = if range.is_write {
                        Next::End
                    } else {
                        Next::Host { sectors: range.sectors }
                    };
                    self.plan(at, slot, since, next);
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
        let began = olive.chips.iter().map(|chip| chip.free(false)).max().expect("there are chips");
        if let Some(done) = olive.submit(began, 0, &command) {
            return done.map(|()| 0);
        }
        Ok(olive.advance(Nanos::MAX, &mut VecDeque::new()) - began)
    }

    #[test]
    fn a_write_elsewhere_takes_its_chip_longer() {
        let spec = OliveSpec::default();
        let mut olive = Olive::new(&spec);
        let times = [0, 8, 4096 * 4 + 64].map(|lba| write(&mut olive, lba, 8).unwrap());
        assert_eq!(times[0], spec.host_time(8, true) + 685_000);
        assert_eq!(times[2] - times[0], 685_000 / 3, "it goes to the first chip too");
    }

    #[test]
    fn each_stripe_begins_with_a_jump() {
        let spec = OliveSpec { interleave: 16, ..OliveSpec::default() };
        let mut olive = Olive::new(&spec);
        let times = [0, 8, 64, 72].map(|lba| write(&mut olive, lba, 8).unwrap());
        assert_eq!(times.map(|took| took - times[0]), [0, 0, 685_000 / 3, 0]);
    }

    #[test]
    fn a_chip_serves_as_many_writes_as_configured_and_one_read() {
        let spec = OliveSpec { writes_per_chip: 2, ..OliveSpec::default() };
        let mut olive = Olive::new(&spec);
        let range = |lba, is_write| Range { lba, sectors: 8, is_write };
        let ends = [0, 8, 16].map(|lba| olive.pass_chips(0, range(lba, true)));
        assert_eq!(ends, [685_000, 685_000 + 19_000, 2 * 685_000], "19 µs are the bus's");
        let read = olive.pass_chips(0, range(0, false));
        assert_eq!(read, 2 * 685_000 + 89_000, "after both writes");
    }

    #[test]
    fn the_driver_keeps_further_commands_back() {
        let spec = OliveSpec { interleave: 8, commands: 3, ..OliveSpec::default() };
        let mut olive = Olive::new(&spec);
        let four = Range { lba: 0, sectors: 32, is_write: false };
        assert_eq!(olive.pass_chips(0, four), 2 * 89_000, "the fourth chip waits for a command");
    }

    #[test]
    fn the_host_prepares_each_further_piece_of_one_request_at_a_time() {
        let spec = OliveSpec { interleave: 8, piece_time: 1_000_000, ..OliveSpec::default() };
        let host = spec.host_time(16, false);
        let (at, _) = ends(&spec, &[(0, 16), (0, 8), (16, 16)]);
        assert_eq!(at[1..], [1_000_000 + 89_000 + host, 2_000_000 + 89_000 + host]);
    }

    #[test]
    fn a_raw_array_is_written_in_order_and_its_chips_are_its_units() {
        let spec = OliveSpec { raw: true, ..OliveSpec::default() };
        let mut olive = Olive::new(&spec);
        assert!(write(&mut olive, 0, 8).is_ok());
        assert_eq!(write(&mut olive, 0, 8), Err(DeviceError::Unsupported));
        let each = spec.sectors / 4;
        for lba in [8, each, 2 * each, 3 * each] {
            assert!(write(&mut olive, lba, 8).is_ok());
        }
        assert!(olive.chips.iter().all(|chip| chip.free(false) > 0));
        assert!(olive.is_raw() && olive.check().is_ok());
    }
}
