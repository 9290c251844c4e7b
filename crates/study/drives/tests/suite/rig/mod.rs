//! A drive with a clock: a minimal driver.

use std::collections::VecDeque;

use hostftl_core::{Cause, Command, Gather, Nanos, Payload, Piece, Tally, Target};
use hostftl_drives::{Drive, DriveSpec, Ended, Spent};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub(crate) struct Rig {
    pub drive: Drive,
    pub now: Nanos,
    /// Submission time, end and latency by stage of each command.
    pub log: Vec<(Nanos, Option<Nanos>, Spent)>,
    ended: VecDeque<Ended>,
    under_way: usize,
    dice: Xoshiro256PlusPlus,
}

impl Rig {
    pub(crate) fn new(spec: &DriveSpec) -> Self {
        Rig {
            drive: Drive::new(spec).expect("a drive that fits"),
            now: 0,
            log: Vec::new(),
            ended: VecDeque::new(),
            under_way: 0,
            dice: Xoshiro256PlusPlus::seed_from_u64(1),
        }
    }

    fn submit(&mut self, command: Command) -> usize {
        let slot = self.log.len();
        let over = self.drive.submit(self.now, slot as u32, &command);
        command.void();
        assert!(over.is_none_or(|result| result.is_ok()), "the drive serves every command");
        self.log.push((self.now, over.map(|_| self.now), Spent::default()));
        self.under_way += usize::from(over.is_none());
        slot
    }

    pub(crate) fn write(&mut self, lba: u64, sectors: u32) -> usize {
        let tally = Tally::single(Cause::Host, sectors);
        let gather = Gather::from_iter([Piece::zero_sectors(sectors)]);
        self.submit(Command::Program { device: 0, lba, gather, tally, placement: 0 })
    }

    pub(crate) fn read(&mut self, lba: u64, sectors: u32) -> usize {
        let mut payload = Payload::issue(0, sectors);
        let into = Target::Data(payload.view_mut_sectors(0, sectors));
        let slot = self.submit(Command::Read { device: 0, lba, into, cause: Cause::Host });
        payload.void();
        slot
    }

    pub(crate) fn trim(&mut self, lba: u64, sectors: u64) {
        self.submit(Command::Reset { device: 0, lba, sectors });
    }

    pub(crate) fn flush(&mut self) -> usize {
        self.submit(Command::Flush { device: 0 })
    }

    /// Advances to the end of the next command. Returns false if the flash is idle.
    pub(crate) fn advance(&mut self) -> bool {
        if self.drive.next_at().is_none() {
            return false;
        }
        self.now = self.drive.advance(Nanos::MAX, &mut self.ended);
        for over in self.ended.drain(..) {
            assert_eq!(over.result, Ok(()));
            let (since, until, spent) = &mut self.log[over.slot as usize];
            assert_eq!(*until, None, "a command ends once");
            assert_eq!(over.spent.total(), self.now - *since, "its time went somewhere");
            (*until, *spent) = (Some(self.now), over.spent);
            self.under_way -= 1;
        }
        true
    }

    /// Advances until all commands have ended.
    pub(crate) fn drain(&mut self) {
        while self.advance() {}
        assert_eq!(self.under_way, 0, "a command was not answered");
    }

    /// Returns the latency of a completed command, in µs.
    pub(crate) fn took(&self, slot: usize) -> f64 {
        let (since, until, _) = self.log[slot];
        (until.expect("it ended") - since) as f64 / 1000.0
    }

    /// Writes every map unit once, in order.
    pub(crate) fn fill(&mut self) {
        let unit = self.drive.spec().map_unit;
        for index in 0..self.drive.spec().exported / u64::from(unit) {
            self.write(index * u64::from(unit), unit);
            self.keep(64);
        }
        self.drain();
    }

    /// Writes `sectors` aligned sectors at `count` uniformly distributed positions.
    pub(crate) fn overwrite(&mut self, count: u64, sectors: u32) {
        for _ in 0..count {
            let places = self.drive.spec().exported / u64::from(sectors);
            let place = self.dice.random_range(0..places);
            self.write(place * u64::from(sectors), sectors);
            self.keep(64);
        }
        self.drain();
    }

    fn keep(&mut self, most: usize) {
        while self.under_way >= most {
            assert!(self.advance(), "commands are in flight and nothing happens");
        }
    }
}
