//! Measurement of a model at the workloads of a data sheet.
//!
//! A model is measured with one channel of the real drive: its dies, and its share of the host
//! link, of the buffer and of the power budget. Rates are multiplied by the number of channels.
//! Latencies at queue depth 1 follow from the times of the model.

use std::collections::VecDeque;

use hostftl_core::{Cause, Command, Gather, Nanos, Payload, Piece, SECTOR, Tally, Target};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use thiserror::Error;

use super::{Figure, Model, Rate, Setting};
use crate::drive::Drive;
use crate::model::{Clock, Ended};
use crate::spec::{DriveSpec, shared_options};
use crate::text::DriveError;

/// Queue depth of the whole drive.
const DEPTH: u32 = 256;
/// Length of sequential requests in sectors: 128 KiB.
const SEQUENTIAL: u32 = 256;
/// Length of random reads in sectors: 4 KiB.
const RANDOM: u32 = 8;
/// Blocks of each plane of the measured slice.
const BLOCKS: f64 = 512.0;
/// Map units of a superblock of the measured slice, at least. Greedy collection of much smaller
/// superblocks has a lower write amplification.
const LEAST_UNITS: u32 = 128;
/// Times that every map unit is overwritten before random writes are measured.
const AGED: u64 = 3;
/// Reads that are measured.
const READS: u64 = 20_000;

/// Reason why a model cannot be measured.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// The drive is invalid, or does not fit into memory.
    #[error(transparent)]
    Drive(#[from] DriveError),
}

/// Figures of a model that correspond to those of its data sheet.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    rates: [(Rate, Option<f64>); 4],
    latencies: [Option<f64>; 2],
    tbw: f64,
    dwpd: f64,
    /// Write amplification of random writes of map units in steady state; 1 for a raw drive.
    pub write_amplification: f64,
}

impl Measured {
    /// Returns a figure of the model; `None` if the model has none.
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        match figure {
            Figure::Rate(rate) => self.rates.iter().find(|(of, _)| *of == rate)?.1,
            Figure::ReadLatency => self.latencies[0],
            Figure::WriteLatency => self.latencies[1],
            Figure::Tbw => Some(self.tbw),
            Figure::Dwpd => Some(self.dwpd),
            Figure::RandomWriteKib => None,
        }
    }
}

impl Model {
    /// Measures the model at the workloads of its data sheet, which takes about a second.
    ///
    /// # Errors
    /// When the model's drive is invalid or does not fit into memory.
    pub fn measure(&self) -> Result<Measured, MeasureError> {
        let spec = DriveSpec::find(&self.name)?;
        let channels = self.drive_number("channels").unwrap_or(1.0);
        let part = DriveSpec::find(&self.one_channel(&spec, channels))?;
        let mut player = Player::new(&part, (DEPTH / channels as u32).max(4))?;
        let mut rates = Rate::ALL.map(|rate| (rate, None));
        let write_amplification = if spec.zoned.is_some() {
            let (write, read) = player.zones();
            rates[0].1 = Some(read * channels);
            rates[1].1 = Some(write * channels);
            1.0
        } else {
            let kib = self.figure(Figure::RandomWriteKib).unwrap_or(4.0);
            player.fill();
            rates[1].1 = Some(player.sequential_writes() * channels);
            rates[0].1 = Some(player.sequential_reads() * channels);
            let (writes, amplification) = player.random_writes((kib * 2.0) as u32);
            rates[3].1 = Some(writes * channels);
            rates[2].1 = Some(player.random_reads() * channels);
            amplification
        };
        player.payload.void();
        let tbw = self.model_tbw(&spec, write_amplification);
        Ok(Measured {
            rates,
            latencies: latencies(&spec),
            tbw,
            dwpd: tbw / self.tb_per_dwpd(),
            write_amplification,
        })
    }

    fn drive_number(&self, key: &str) -> Option<f64> {
        self.drive.iter().find(|it| it.key == key).and_then(Setting::number)
    }

    /// Returns the name of a drive with one channel of this model's and its share of the rest.
    fn one_channel(&self, spec: &DriveSpec, channels: f64) -> String {
        let rest = shared_options(|key| self.drive_number(key), 1.0 / channels);
        let name = format!("{}:channels=1{rest}", self.name);
        let unit = u64::from(spec.map_unit) * SECTOR as u64;
        let bytes = if spec.zoned.is_some() {
            1 << 30
        } else {
            let lanes = f64::from(spec.shape.lanes()) / channels;
            let per_row = lanes * f64::from(spec.units_per_row()) / f64::from(spec.rows_per_unit());
            let least = f64::from(2 * spec.rows_per_unit());
            let rows = (f64::from(LEAST_UNITS) / per_row).ceil().max(least);
            let block = lanes * rows * f64::from(spec.shape.row_sectors) * SECTOR as f64;
            let spare = self.drive_number("over_provisioning_percent").unwrap_or_default();
            (block * BLOCKS * (1.0 - spare / 100.0)) as u64 / unit * unit
        };
        format!("{name}:capacity={}k", bytes >> 10)
    }

    /// Returns the 10^12 bytes that the host can write to the real drive at this write
    /// amplification before each block has reached its rated cycles.
    fn model_tbw(&self, spec: &DriveSpec, amplification: f64) -> f64 {
        let physical = spec.shape.sectors() as f64 / spec.exported as f64;
        let cycles = f64::from(spec.cycles);
        cycles * physical * self.capacity_bytes() as f64 / amplification / 1e12
    }
}

/// Returns the latencies in µs of a random read and a buffered write of 4 KiB on an idle drive.
fn latencies(spec: &DriveSpec) -> [Option<f64>; 2] {
    let us = |time: Nanos| Some(time as f64 / 1000.0);
    let link = spec.link.map_or(0, |link| link.occupied(RANDOM) + link.latency);
    let transfer = spec.bus * u64::from(RANDOM) / u64::from(spec.shape.row_sectors);
    let write = (spec.write_buffer > 0).then_some(link);
    [us(spec.read + transfer + link), write.and_then(us)]
}

/// A drive and its clock, with a constant number of requests in flight.
struct Player {
    drive: Drive,
    now: Nanos,
    free: Vec<u32>,
    depth: usize,
    ended: VecDeque<Ended>,
    dice: Xoshiro256PlusPlus,
    payload: Payload,
}

impl Player {
    fn new(spec: &DriveSpec, depth: u32) -> Result<Self, DriveError> {
        let longest = SEQUENTIAL.max(spec.map_unit).max(spec.shape.row_sectors);
        Ok(Player {
            drive: Drive::new(spec)?,
            now: 0,
            free: (0..depth).collect(),
            depth: depth as usize,
            ended: VecDeque::with_capacity(depth as usize),
            dice: Xoshiro256PlusPlus::seed_from_u64(1),
            payload: Payload::issue(0, longest),
        })
    }

    fn submit(&mut self, make: impl FnOnce(&mut Payload) -> Command) {
        while self.free.is_empty() {
            self.advance();
        }
        let slot = self.free.pop().expect("one is free");
        let command = make(&mut self.payload);
        if self.drive.submit(self.now, slot, &command).is_some() {
            self.free.push(slot);
        }
        command.void();
    }

    fn advance(&mut self) {
        self.now = self.drive.advance(Nanos::MAX, &mut self.ended);
        self.free.extend(self.ended.drain(..).map(|ended| ended.slot));
    }

    fn write(&mut self, lba: u64, sectors: u32) {
        self.submit(|payload| {
            let tally = Tally::single(Cause::Host, sectors);
            let gather = Gather::from_iter([Piece::Data(payload.view_sectors(0, sectors))]);
            Command::Program { device: 0, lba, gather, tally, placement: 0 }
        });
    }

    fn read(&mut self, lba: u64, sectors: u32) {
        self.submit(|payload| {
            let into = Target::Data(payload.view_mut_sectors(0, sectors));
            Command::Read { device: 0, lba, into, cause: Cause::Host }
        });
    }

    /// Waits until nothing is in progress, and sets the clock.
    fn settle(&mut self, clock: Clock) {
        while self.drive.next_at().is_some() {
            self.advance();
        }
        assert_eq!(self.free.len(), self.depth, "a request was not answered");
        self.drive.set_clock(clock);
    }

    /// Runs `count` requests in virtual time and returns the number per second of the second half.
    fn rate(&mut self, count: u64, mut request: impl FnMut(&mut Self, u64)) -> f64 {
        self.settle(Clock::Timed);
        (0..count / 2).for_each(|index| request(self, index));
        let from = self.now;
        (count / 2..count).for_each(|index| request(self, index));
        (count - count / 2) as f64 * 1e9 / (self.now - from).max(1) as f64
    }

    /// Returns the number of sequential requests that cover the drive once.
    fn covering(&self) -> u64 {
        self.drive.spec().exported / u64::from(SEQUENTIAL)
    }

    fn fill(&mut self) {
        self.settle(Clock::Counts);
        let unit = self.drive.spec().map_unit;
        for at in 0..self.drive.spec().exported / u64::from(unit) {
            self.write(at * u64::from(unit), unit);
        }
    }

    /// Returns MB/s.
    fn sequential_writes(&mut self) -> f64 {
        let rate = self.rate(self.covering() / 2, |player, at| {
            player.write(at * u64::from(SEQUENTIAL), SEQUENTIAL);
        });
        rate * f64::from(SEQUENTIAL) * SECTOR as f64 / 1e6
    }

    /// Returns MB/s.
    fn sequential_reads(&mut self) -> f64 {
        let covering = self.covering();
        let rate = self.rate(READS / 4, |player, at| {
            player.read(at % covering * u64::from(SEQUENTIAL), SEQUENTIAL);
        });
        rate * f64::from(SEQUENTIAL) * SECTOR as f64 / 1e6
    }

    /// Ages the drive with random writes. Returns the writes per second in steady state, and the
    /// write amplification. Parts of map units count as whole ones.
    fn random_writes(&mut self, sectors: u32) -> (f64, f64) {
        self.settle(Clock::Counts);
        let unit = self.drive.spec().map_unit;
        let units = self.drive.spec().exported / u64::from(unit);
        for _ in 0..AGED * units {
            let lba = self.dice.random_range(0..units) * u64::from(unit);
            self.write(lba, unit);
        }
        let before = self.drive.work();
        let (count, places) = (units / 2, self.drive.spec().exported / u64::from(sectors));
        let rate = self.rate(count, |player, _| {
            let lba = player.dice.random_range(0..places) * u64::from(sectors);
            player.write(lba, sectors);
        });
        let programmed = self.drive.work().since(&before).programmed();
        (rate, programmed as f64 / (count * u64::from(sectors.max(unit))) as f64)
    }

    fn random_reads(&mut self) -> f64 {
        let places = self.drive.spec().exported / u64::from(RANDOM);
        self.rate(READS, |player, _| {
            let lba = player.dice.random_range(0..places) * u64::from(RANDOM);
            player.read(lba, RANDOM);
        })
    }

    /// Writes the segments of a raw drive and reads them. Returns MB/s of both.
    fn zones(&mut self) -> (f64, f64) {
        let row = self.drive.spec().shape.row_sectors;
        let rows = self.drive.spec().exported / u64::from(row);
        let megabytes = f64::from(row) * SECTOR as f64 / 1e6;
        let writes = self.rate(rows, |player, at| player.write(at * u64::from(row), row));
        let reads = self.rate(rows / 2, |player, at| player.read(at * u64::from(row), row));
        (writes * megabytes, reads * megabytes)
    }
}
