//! The log layer alone: every command is over at once, on one core. How many 4 KiB random writes a
//! second it takes while it collects, and whether its write amplification is what theory says.
//! `cargo run --release -p hostftl-sim --example log_core [RUNS]`

use std::time::Instant;

use hostftl_core::{Cause, HostOp, Layer, Payload, Request, SECTORS_PER_BLOCK, Tally, Ticket};
use hostftl_drives::{Clock, Drive, DriveSpec};
use hostftl_layers::{AnyLayer, LayerConfig, Mode};
use hostftl_sim::theory;
use hostftl_sim::{HostCosts, World};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const WRITES: u64 = 1_000_000;

fn main() {
    let runs = std::env::args().nth(1).map_or(1, |runs| runs.parse().expect("a number of runs"));
    for layer in ["log:compress=none:spare=25", "log:spare=25"] {
        for run in 0..runs {
            once(layer, run);
        }
    }
}

fn once(layer: &str, seed: u64) {
    let config = LayerConfig::parse(layer).expect("a layer");
    let spec = DriveSpec::find("hatl-2g").expect("a drive");
    let devices = [spec.device_info()];
    let plan = AnyLayer::plan(&config, &devices).expect("the layer fits the drive");
    let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
    let log = AnyLayer::new(&config, &devices, buffers, Mode::Format).expect("it was planned");
    let drive = Drive::new(&spec).expect("a drive");
    let mut world = World::of(log, vec![drive], HostCosts::default()).expect("it becomes ready");
    world.keep_metadata();
    world.set_clock(Clock::Counts);
    let blocks = plan.limits.exported / u64::from(SECTORS_PER_BLOCK);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..blocks).for_each(|block| write(&mut world, block));
    (0..3 * blocks).for_each(|_| write(&mut world, rng.random_range(0..blocks)));
    let before = world.layer().counters();
    let from = Instant::now();
    (0..WRITES).for_each(|_| write(&mut world, rng.random_range(0..blocks)));
    let took = from.elapsed().as_secs_f64();
    let (after, gauges) = (world.layer().counters(), world.layer().gauges().expect("it has them"));
    let host = after.host_written - before.host_written;
    let waf = 1.0 + (after.gc_copied - before.gc_copied) as f64 / host as f64;
    let alpha = (gauges.live + gauges.stale) as f64 / gauges.live as f64;
    println!(
        "{layer}: {:.2} M writes/s; waf {waf:.3} of data, theory {:.3} (greedy) and {:.3} (fifo) \
         at α {alpha:.3}",
        WRITES as f64 / took / 1e6,
        theory::greedy(alpha, 1 << 16),
        theory::fifo(alpha),
    );
}

fn write(world: &mut World<AnyLayer>, block: u64) {
    while world.credits().requests == 0 {
        assert!(world.advance().expect("the layer is sound"), "a stall");
        while world.answer().is_some() {}
    }
    let data = Payload::issue(1 << 24, SECTORS_PER_BLOCK);
    let request = Request {
        ticket: Ticket::issue(0),
        op: HostOp::Write { data, fua: false },
        lba: block * u64::from(SECTORS_PER_BLOCK),
        sectors: SECTORS_PER_BLOCK.into(),
        tally: Tally::of(Cause::Host, SECTORS_PER_BLOCK),
    };
    world.send(request).expect("the layer is sound");
    while world.answer().is_some() {}
}
