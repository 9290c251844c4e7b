//! Benchmark of the simulation speed of a drive: `cargo run --release -p hostftl-drives --example
//! drive_speed [DRIVE] [UTILISATION] [SECONDS]`.
//!
//! It writes single map units, uniformly distributed over a share of the flash, at queue depth 64
//! and in steady state, on one core and without a layer. Times are CPU times of the process where
//! the system reports them, so that other load on the machine matters less.

use std::collections::VecDeque;
use std::time::Instant;

use hostftl_core::{Cause, Command, Gather, Payload, Piece, Tally};
use hostftl_drives::pool::{Pool, PoolSpec};
use hostftl_drives::{Clock, Drive, DriveSpec};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const DEPTH: u32 = 64;
/// Overwrites before the first measurement.
const WARM: u64 = 4;

/// Returns the CPU time in seconds, or the time since `start` if the system does not report it.
fn seconds(start: &Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    nanos.map_or(start.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

struct Bench {
    drive: Drive,
    unit: u32,
    span: u64,
    dice: Xoshiro256PlusPlus,
    now: u64,
    free: Vec<u32>,
    ended: VecDeque<hostftl_drives::Ended>,
    payload: Payload,
}

impl Bench {
    fn write(&mut self, unit: u64) {
        while self.free.is_empty() {
            self.now = self.drive.advance(u64::MAX, &mut self.ended);
            self.free.extend(self.ended.drain(..).map(|over| over.slot));
        }
        let slot = self.free.pop().expect("one is free");
        let (lba, tally) = (unit * u64::from(self.unit), Tally::single(Cause::Host, self.unit));
        let gather = Gather::from_iter([Piece::Data(self.payload.view_sectors(0, self.unit))]);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        if self.drive.submit(self.now, slot, &command).is_some() {
            self.free.push(slot);
        }
        command.void();
    }

    fn overwrite(&mut self, count: u64) {
        for _ in 0..count {
            let unit = self.dice.random_range(0..self.span);
            self.write(unit);
        }
    }

    fn measure(&mut self, clock: Clock, limit: f64) {
        while self.drive.next_at().is_some() {
            self.now = self.drive.advance(u64::MAX, &mut self.ended);
            self.free.extend(self.ended.drain(..).map(|over| over.slot));
        }
        self.drive.set_clock(clock);
        self.overwrite(self.span / 4);
        let (before, begin, start) = (self.drive.work(), self.now, Instant::now());
        let (mut writes, from) = (0, seconds(&start));
        while seconds(&start) - from < limit {
            self.overwrite(100_000);
            writes += 100_000;
        }
        let took = seconds(&start) - from;
        let work = self.drive.work().since(&before);
        let stripe = self.drive.spec().shape.stripe;
        let waf = work.programmed() as f64 / (writes * u64::from(self.unit)) as f64;
        println!(
            "{clock:?}: {:.2} M page operations/s, {:.2} M programs/s, {:.2} M host writes/s, \
             WAF {waf:.4} at α {:.4}; simulated {:.1} k host writes/s",
            work.flash.page_operations(stripe) as f64 / took / 1e6,
            (work.flash.programs * u64::from(stripe)) as f64 / took / 1e6,
            writes as f64 / took / 1e6,
            self.drive.alpha(),
            writes as f64 / (self.now - begin).max(1) as f64 * 1e6,
        );
    }
}

/// Measures the same writes to one pool of the same number of pages, as a reference for the present
/// speed of the machine.
fn pool_alone(bench: &mut Bench, limit: f64) {
    let spec = bench.drive.spec();
    let units = (spec.shape.sectors() / u64::from(spec.map_unit)) as u32;
    let span = bench.span as u32;
    let mut pool = Pool::new(PoolSpec::new(units / 256, 256, span)).expect("a possible pool");
    let mut write = |count: u32, dice: &mut Xoshiro256PlusPlus| {
        (0..count).for_each(|_| pool.write(dice.random_range(0..span), &mut |_| {}));
        pool.work().programs()
    };
    write(4 * span, &mut bench.dice);
    let start = Instant::now();
    let (before, from) = (write(span, &mut bench.dice), seconds(&start));
    let mut after = before;
    while seconds(&start) - from < limit {
        after = write(100_000, &mut bench.dice);
    }
    let rate = (after - before) as f64 / (seconds(&start) - from) / 1e6;
    println!("one pool alone: {rate:.2} M programs/s");
}

fn main() {
    let mut args = std::env::args().skip(1);
    let spec = DriveSpec::find(&args.next().unwrap_or("mlc-32g".into())).expect("a drive");
    let utilisation = args.next().map_or(0.742, |it| it.parse().expect("a share"));
    let limit = args.next().map_or(5.0, |it| it.parse().expect("seconds"));
    let span = (spec.shape.sectors() as f64 * utilisation) as u64 / u64::from(spec.map_unit);
    let mut bench = Bench {
        drive: Drive::new(&spec).expect("it fits into memory"),
        unit: spec.map_unit,
        span,
        dice: Xoshiro256PlusPlus::seed_from_u64(1),
        now: 0,
        free: (0..DEPTH).collect(),
        ended: VecDeque::with_capacity(1024),
        payload: Payload::issue(0, spec.map_unit),
    };
    let start = Instant::now();
    bench.drive.set_clock(Clock::Counts);
    (0..span).for_each(|unit| bench.write(unit));
    let filled = seconds(&start);
    bench.overwrite(WARM * span);
    let warm = seconds(&start);
    println!("filled in {filled:.2} s, overwritten {WARM} times by {warm:.2} s");
    println!("{:.2} B a page", bench.drive.bytes() as f64 / spec.shape.pages() as f64);
    bench.measure(Clock::Counts, limit);
    pool_alone(&mut bench, limit);
    bench.measure(Clock::Timed, limit);
    pool_alone(&mut bench, limit);
    bench.payload.void();
}
