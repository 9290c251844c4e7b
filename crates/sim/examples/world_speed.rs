//! How fast a world is simulated under passthrough: `cargo run --release -p hostftl-sim --example
//! world_speed [DRIVE] [UTILISATION] [REQUESTS]`.
//!
//! Writes of one map unit, uniform over a share of the flash, 64 under way, steady, through the
//! player as a study does it. Seconds are those that the program had a core, where the system tells
//! them.

use std::time::Instant;

use hostftl_core::Payload;
use hostftl_drives::{Clock, DriveSpec};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};
use hostftl_sim::{Front, HostCosts, Pace, Player, Work, World};
use hostftl_trace::{Op, Record};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const DEPTH: u32 = 64;

/// Seconds on the core since the start, or of the clock where the system does not tell.
fn seconds(start: &Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    nanos.map_or(start.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn play(world: &mut World<AnyLayer>, writes: impl Iterator<Item = Record>) {
    let now = world.now();
    let mut front = Front::new(world);
    let mut player = Player::new(writes.map(Ok), Pace::Closed(DEPTH), now);
    assert!(player.play(world, &mut front, |_| false).is_ok(), "no law is broken");
    world.drain().expect("no law is broken");
}

fn measure(world: &mut World<AnyLayer>, clock: Clock, units: &mut dyn Iterator<Item = Record>) {
    world.set_clock(clock);
    let start = Instant::now();
    let (before, from) = (Work::of(world), seconds(&start));
    play(world, units);
    let took = seconds(&start) - from;
    let work = Work::of(world).since(&before);
    let drive = &work.drives[0];
    println!(
        "{clock:?}: {:.2} M page operations/s, {:.2} M programs/s, {:.2} M host writes/s, WAF \
         {:.4}",
        drive.flash.page_operations(1) as f64 / took / 1e6,
        drive.flash.programs as f64 / took / 1e6,
        work.sent_by[0] as f64 / 16.0 / took / 1e6,
        work.programmed() as f64 / work.sent_by[0] as f64
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let spec = DriveSpec::find(&args.next().unwrap_or("mlc-32g".into())).expect("a drive");
    let utilisation = args.next().map_or(0.742, |it| it.parse().expect("a share"));
    let count: usize = args.next().map_or(3_000_000, |it| it.parse().expect("a number"));
    let unit = u64::from(spec.map_unit);
    let units = (spec.shape.sectors() as f64 * utilisation) as u64 / unit;
    let config = LayerConfig::new(LayerKind::Passthrough);
    let devices = [spec.device_info()];
    let layer = AnyLayer::new(&config, &devices, Vec::<Payload>::new(), Mode::Format).unwrap();
    let mut world = World::new(layer, std::slice::from_ref(&spec), HostCosts::default()).unwrap();
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(1);
    let write = |page: u64| Record::new(0, Op::Write, 0, page * unit, unit);
    let mut random = std::iter::repeat_with(|| write(dice.random_range(0..units)));
    world.set_clock(Clock::Counts);
    play(&mut world, (0..units).map(write));
    play(&mut world, random.by_ref().take(4 * units as usize));
    for _ in 0..2 {
        measure(&mut world, Clock::Counts, &mut random.by_ref().take(count));
        measure(&mut world, Clock::Timed, &mut random.by_ref().take(count));
    }
    world.stop().expect("it stops");
}
