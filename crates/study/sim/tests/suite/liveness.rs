//! Every layer keeps completing requests with default parameters and at real size, however long the
//! host writes.
//!
//! Queues, reserves and logs of a layer fill only on volumes of real size. A stall is detected at
//! once because no event is pending. A layer that works without completing requests is detected by
//! the player, which counts steps and virtual time. The world stores no payload, so this is fast.

use std::collections::VecDeque;

use hostftl_core::{Command, DeviceError, DeviceInfo, Layer, Nanos, Payload};
use hostftl_drives::{Clock, Drive, DriveSpec, DriveWork, Ended, Model, Spent};
use hostftl_layers::{AnyLayer, LayerConfig, Mode};
use hostftl_sim::{Front, HostCosts, Pace, PlayError, Player, Violation, World};
use hostftl_trace::{Op, Record};

/// Duration of each command in ns.
const TOOK: Nanos = 20_000;
/// Queue depth.
const DEPTH: u32 = 16;
const MIB: u64 = 2048;

/// A device with the same duration for all commands, which stores nothing.
struct Even {
    info: DeviceInfo,
    in_flight: VecDeque<(Nanos, u32)>,
}

impl Model for Even {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn submit(&mut self, now: Nanos, slot: u32, _: &Command) -> Option<Result<(), DeviceError>> {
        self.in_flight.push_back((now + TOOK, slot));
        None
    }

    fn next_at(&self) -> Option<Nanos> {
        self.in_flight.front().map(|(at, _)| *at)
    }

    fn advance(&mut self, _: Nanos, ended: &mut VecDeque<Ended>) -> Nanos {
        let (at, slot) = self.in_flight.pop_front().expect("a request is in flight");
        ended.push_back(Ended { slot, result: Ok(()), spent: Spent::default() });
        at
    }

    fn idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    fn set_clock(&mut self, _: Clock) {}

    fn work(&self) -> DriveWork {
        DriveWork::default()
    }
}

/// The host's behaviour after it has filled the volume.
#[derive(Clone, Copy, Debug)]
struct Habit {
    /// Lengths of writes in sectors, in rotation.
    sizes: &'static [u64],
    /// Percentage of writes that continue at the end of the previous one.
    sequential: u64,
    /// Number of writes between flushes, and between trims; 0 = never.
    flush: u64,
    trim: u64,
}

const HABITS: [Habit; 6] = [
    Habit { sizes: &[8], sequential: 0, flush: 0, trim: 0 },
    Habit { sizes: &[1, 2, 3], sequential: 0, flush: 0, trim: 0 },
    Habit { sizes: &[8], sequential: 0, flush: 50, trim: 200 },
    Habit { sizes: &[128], sequential: 100, flush: 0, trim: 0 },
    Habit { sizes: &[8, 1, 64, 8, 200], sequential: 50, flush: 0, trim: 100 },
    Habit { sizes: &[8, 2, 128], sequential: 30, flush: 1, trim: 0 },
];

/// Returns the requests of a habit: the volume is filled, then `sectors` sectors are written within
/// `span`.
fn requests(habit: Habit, exported: u64, span: u64, sectors: u64) -> Vec<Record> {
    let fill = (0..exported).step_by(2048);
    let fill = fill.map(|lba| Record::new(0, Op::Write, 0, lba, 2048.min(exported - lba)));
    let mut list: Vec<_> = fill.collect();
    let (mut dice, mut next, mut written, mut count) = (0x9e37_79b9_7f4a_7c15_u64, 0, 0, 0);
    let mut throw = move |below: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % below
    };
    while written < sectors {
        let size = habit.sizes[count as usize % habit.sizes.len()];
        let goes_on = throw(100) < habit.sequential && next + size <= span;
        let lba = if goes_on { next } else { throw(span / size) * size };
        list.push(Record::new(0, Op::Write, 0, lba, size));
        (next, written, count) = (lba + size, written + size, count + 1);
        if habit.flush > 0 && count % habit.flush == 0 {
            list.push(Record::flush(0, 0));
        }
        if habit.trim > 0 && count % habit.trim == 0 {
            list.push(Record::new(0, Op::Discard, 0, throw(span - 512), 512));
        }
    }
    list
}

/// Plays requests to a layer over devices, and stops it.
fn play<D: Model>(
    config: &LayerConfig,
    infos: &[DeviceInfo],
    drives: Vec<D>,
    work: impl Fn(u64) -> Vec<Record>,
) -> Result<(), Violation> {
    let plan = AnyLayer::plan(config, infos).expect("the layer takes these devices");
    let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors));
    let layer = AnyLayer::new(config, infos, buffers.collect(), Mode::Format).expect("as planned");
    let mut world = World::of(layer, drives, HostCosts::default())?;
    if config.kind.reads_metadata() {
        world.keep_metadata();
    }
    let mut front = Front::new(&world);
    let records = work(plan.limits.exported).into_iter().map(Ok);
    let mut player = Player::new(records, Pace::Closed(DEPTH), world.now());
    match player.play(&mut world, &mut front, |_| false) {
        Ok(_) => {}
        Err(PlayError::Violation(violation)) => return Err(violation),
        Err(PlayError::Trace(error)) => panic!("{error}"),
    }
    world.stop()?;
    world.layer().check().map_err(|why| Violation::Check("the layer", why))
}

/// Plays habits to a layer with default parameters over block devices of `sizes` MiB. `area` is
/// twice the size of its hidden area or its over-provisioning, in MiB.
fn over_blocks(layer: &str, sizes: &[u64], area: u64, habits: &[Habit]) {
    let config = LayerConfig::parse(layer).expect("a layer");
    let info = |mib: &u64| DeviceInfo::block(mib * MIB, 8);
    let infos: Vec<_> = sizes.iter().map(info).collect();
    for &habit in habits {
        let drives =
            infos.iter().map(|info| Even { info: info.clone(), in_flight: VecDeque::new() });
        let work = |exported: u64| requests(habit, exported, exported, area * MIB);
        if let Err(violation) = play(&config, &infos, drives.collect(), work) {
            panic!("{layer} over {sizes:?} MiB, {habit:?}: {violation}");
        }
    }
}

/// Plays habits to a layer over a modelled drive.
fn over_drive(layer: &str, drive: &str, area: u64, habits: &[Habit]) {
    let mut config = LayerConfig::parse(layer).expect("a layer");
    let spec = DriveSpec::find(drive).expect("a drive");
    let info = spec.device_info();
    config.superpage = config.superpage.next_multiple_of(info.iu_sectors);
    for &habit in habits {
        let drives = vec![Drive::new(&spec).expect("a possible drive")];
        let work = |exported: u64| requests(habit, exported, exported, area * MIB);
        if let Err(violation) = play(&config, core::slice::from_ref(&info), drives, work) {
            panic!("{layer} on {drive}, {habit:?}: {violation}");
        }
    }
}

const QUICK: &[Habit] = &[HABITS[0], HABITS[2]];

#[test]
fn ressd_progresses_with_defaults() {
    over_blocks("shatl:mode=ressd", &[2048], 256, &[HABITS[0], HABITS[1], HABITS[4]]);
}

/// With small superpages the log fills with kills at once, while few superpages remain.
#[test]
fn ressd_progresses_with_small_superpages() {
    over_blocks("shatl:superpage=8k:mode=ressd", &[2048], 256, &[HABITS[1], HABITS[4]]);
}

#[test]
fn layers_with_a_hidden_area_progress_with_defaults() {
    over_blocks("shatl", &[2048], 256, QUICK);
    over_blocks("shatl", &[2048], 64, &[HABITS[1]]);
    over_blocks("hatl-auto", &[2048], 256, QUICK);
}

#[test]
fn layers_with_a_spare_progress_with_defaults() {
    over_blocks("hard", &[1024], 160, QUICK);
    over_blocks("mhatl", &[1024], 160, QUICK);
    over_blocks("passthrough", &[1024], 64, QUICK);
    over_drive("scrambler", "hatl-1g:hint=true", 160, QUICK);
}

#[test]
fn log_and_tier_progress_with_defaults() {
    over_blocks("log", &[1024], 160, QUICK);
    over_blocks("log:parity=yes", &[512, 512, 512], 160, QUICK);
    over_blocks("log:journal=yes", &[1024, 64], 160, &[HABITS[2], HABITS[5]]);
    over_blocks("tier", &[128, 1024], 256, QUICK);
}

#[test]
fn layers_on_zones_progress_with_defaults() {
    over_drive("pblk", "open-channel:capacity=1g", 224, QUICK);
    over_drive("rrpc", "open-channel:channels=2:ways=1:capacity=1g", 224, QUICK);
}

/// Plays all habits on volumes of 4 GiB, which takes minutes.
#[test]
#[ignore = "takes minutes: `make live`"]
fn every_layer_progresses_under_any_load() {
    for layer in ["shatl:mode=ressd", "shatl", "hatl-auto", "hard", "mhatl", "mhatl:gather=vsp"] {
        over_blocks(layer, &[4096], 1024, &HABITS);
        println!("{layer} goes on");
    }
    over_blocks("passthrough", &[4096], 256, &HABITS);
}

#[test]
#[ignore = "takes minutes: `make live`"]
fn superpages_of_every_size_progress_under_any_load() {
    for size in ["8k", "1m"] {
        for layer in ["shatl", "shatl:mode=ressd"] {
            let layer = format!("{layer}:superpage={size}");
            over_blocks(&layer, &[4096], 512, &HABITS);
            println!("{layer} goes on");
        }
    }
}

#[test]
#[ignore = "takes minutes: `make live`"]
fn log_and_tier_progress_under_any_load() {
    over_blocks("log", &[4096], 1024, &HABITS);
    over_blocks("log:parity=yes", &[2048, 2048, 2048], 1024, &HABITS);
    over_blocks("log:parity=yes", &[2048, 2048], 512, &HABITS);
    over_blocks("log:journal=yes", &[4096, 128], 1024, &HABITS);
    println!("log goes on");
    over_blocks("tier", &[512, 4096], 2048, &HABITS);
    over_blocks("tier:policy=exclusive", &[512, 4096], 1024, &HABITS);
    println!("tier goes on");
}

#[test]
#[ignore = "takes minutes: `make live`"]
fn layers_on_drives_progress_under_any_load() {
    over_drive("scrambler", "hatl-2g:hint=true", 512, &HABITS);
    over_drive("pblk", "open-channel:capacity=2g", 512, &HABITS);
    over_drive("rrpc", "open-channel:channels=2:ways=1:capacity=2g", 512, &HABITS);
}
