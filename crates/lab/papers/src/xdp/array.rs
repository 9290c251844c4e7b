//! The compared stacks: one modelled drive, RAID 5 over four, and the log array over the same four.

use hostftl_core::{DeviceInfo, Layer, Payload};
use hostftl_drives::{Clock, DriveSpec};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode, Plan, Raid5};
use hostftl_sim::{End, Front, HostCosts, Pace, PlayError, Player, Work, World};
use hostftl_trace::{Op, Record, TraceError};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::ROUNDS;
use crate::{Error, Options, Watch};

/// A slice of a drive like the paper's, with all its dies, its speed and its utilisation; and a
/// quarter of that slice for tests.
const NAMES: [&str; 2] = ["tlc-7t", "tlc-7t:capacity=1g"];
/// Queue depth of 16 jobs with 128 requests each.
const DEPTH: u32 = 2048;
/// Number of measured requests, by size of the experiment.
const REQUESTS: [u64; 3] = [20_000, 300_000, 1_000_000];
/// Percentage of a block's bytes saved by compression.
const SAVED: u8 = 67;
/// Sectors per block.
const BLOCK: u64 = 8;
/// Sectors per chunk of RAID 5.
const CHUNK: u32 = 128;
/// Initial size of md's stripe cache, in rows of 4 KiB. Since Linux 4.1 it grows while memory is
/// free.
const MD_ROWS: u16 = 256;

/// A compared stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lab {
    One,
    /// RAID 5 with an entry of its stripe cache for each request in progress.
    Raid5,
    /// RAID 5 with the initial stripe cache of md.
    Md,
    Log,
}

impl Lab {
    /// All stacks, in the order of the report.
    pub(super) const ALL: [Lab; 4] = [Lab::One, Lab::Raid5, Lab::Md, Lab::Log];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Lab::One => "one drive",
            Lab::Raid5 => "RAID 5, 3 + 1, md's rules, cache grown",
            Lab::Md => "RAID 5, 3 + 1, md's rules, 256 rows of cache",
            Lab::Log => "log array, 3 + 1",
        }
    }

    /// Returns the number of random overwrites before the measurement. Full drives are steady after
    /// one.
    const fn rounds(self) -> u64 {
        match self {
            Lab::One | Lab::Raid5 | Lab::Md => 1,
            Lab::Log => ROUNDS,
        }
    }
}

/// Results of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub kind: Lab,
    pub requests: u64,
    pub iops: f64,
    /// Bytes sent to the drives per byte of the host.
    pub sent_per_byte: f64,
    /// Bytes programmed in flash per byte sent.
    pub flash_per_sent: f64,
    pub p99_ns: u64,
    /// Years until the blocks are worn out at one write of the exported capacity per day.
    pub years: f64,
    /// A violated law.
    pub violation: Option<String>,
}

/// Returns the name of the drive.
pub(super) fn drive_name(options: &Options) -> &'static str {
    options.size.pick(NAMES[1], NAMES[0], NAMES[0])
}

/// Returns the drive.
fn drive(options: &Options) -> Result<DriveSpec, Error> {
    let found = DriveSpec::find(drive_name(options));
    found.map_err(|why| Error::Failed(why.to_string()))
}

/// Ages a stack and measures random writes on it.
pub(super) fn measure(kind: Lab, options: &Options, watch: &dyn Watch) -> Result<Outcome, Error> {
    let failed = |why: String| Error::Failed(format!("{}: {why}", kind.name()));
    let drive = drive(options)?;
    let count = if kind == Lab::One { 1 } else { 4 };
    let (drives, infos) = (vec![drive.clone(); count], vec![drive.device_info(); count]);
    let costs = HostCosts::default();
    match kind {
        Lab::Raid5 | Lab::Md => {
            let rows = if kind == Lab::Md { MD_ROWS } else { DEPTH as u16 };
            let plan = Raid5::plan(&infos, CHUNK, rows);
            let plan = plan.map_err(|why| failed(why.to_string()))?;
            let layer = Raid5::new(&infos, CHUNK, rows, buffers(&plan));
            let layer = layer.map_err(|why| failed(why.to_string()))?;
            let world = World::new(layer, &drives, costs);
            play((kind, &drives), world.map_err(|why| failed(why.to_string()))?, options, watch)
        }
        Lab::One | Lab::Log => {
            let layer = any(kind, &infos).map_err(failed)?;
            let world = World::new(layer, &drives, costs);
            let mut world = world.map_err(|why| failed(why.to_string()))?;
            // Garbage collection reads the listings of segments back.
            world.keep_metadata();
            play((kind, &drives), world, options, watch)
        }
    }
}

fn any(kind: Lab, infos: &[DeviceInfo]) -> Result<AnyLayer, String> {
    let config = match kind {
        Lab::Log => LayerConfig::parse("log:compress=lz4:parity=yes")?,
        _ => LayerConfig::new(LayerKind::Passthrough),
    };
    let plan = AnyLayer::plan(&config, infos).map_err(|why| why.to_string())?;
    AnyLayer::new(&config, infos, buffers(&plan), Mode::Format).map_err(|why| why.to_string())
}

fn buffers(plan: &Plan) -> Vec<Payload> {
    (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect()
}

/// Fills and overwrites the space in logical time, then measures.
fn play<L: Layer>(
    (kind, drives): (Lab, &[DriveSpec]),
    mut world: World<L>,
    options: &Options,
    watch: &dyn Watch,
) -> Result<Outcome, Error> {
    let blocks = world.layer().limits().exported / BLOCK;
    let [quick, usual, full] = REQUESTS;
    let count = options.size.pick(quick, usual, full);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    drain(kind, &mut world)?;
    world.set_clock(Clock::Counts);
    let mut front = Front::new(&world);
    pass(kind, &mut world, &mut front, (0..blocks).map(write), watch)?;
    let mut anywhere = || write(random.random_range(0..blocks));
    let warm = (0..kind.rounds() * blocks).map(|_| anywhere());
    pass(kind, &mut world, &mut front, warm, watch)?;
    drain(kind, &mut world)?;
    world.set_clock(Clock::Timed);
    let (before, start) = (Work::of(&world), world.now());
    let mut front = Front::new(&world);
    pass(kind, &mut world, &mut front, (0..count).map(|_| anywhere()), watch)?;
    let took = (world.now() - start) as f64 / 1e9;
    drain(kind, &mut world)?;
    let (work, host) = (Work::of(&world).since(&before), front.totals().written_sectors as f64);
    let sent = work.sent_in_all() as f64;
    let violation = world.layer().check().err().map(|why| format!("{}: {why}", kind.name()));
    Ok(Outcome {
        kind,
        requests: count,
        iops: count as f64 / took,
        sent_per_byte: sent / host,
        flash_per_sent: work.programmed() as f64 / sent,
        years: years(drives, blocks * BLOCK * 512, work.programmed() as f64 / host),
        p99_ns: front.latencies.figures().write.map_or(0, |latency| latency.p99),
        violation,
    })
}

/// Returns the life in years at one write of `exported` bytes per day, if `waf` bytes are
/// programmed per byte.
fn years(drives: &[DriveSpec], exported: u64, waf: f64) -> f64 {
    let flash = |drive: &DriveSpec| {
        let sectors = u64::from(drive.shape.lanes()) * drive.shape.lane_sectors();
        sectors as f64 * 512.0 * f64::from(drive.cycles)
    };
    drives.iter().map(flash).sum::<f64>() / waf / exported as f64 / 365.0
}

/// Returns a write of one block.
fn write(block: u64) -> Record {
    let record = Record::new(0, Op::Write, 0, block * BLOCK, BLOCK);
    Record { saved: Some(SAVED), ..record }
}

/// Plays writes until all are complete.
fn pass<L: Layer>(
    kind: Lab,
    world: &mut World<L>,
    front: &mut Front,
    writes: impl Iterator<Item = Record>,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let mut player = Player::new(writes.map(Ok::<_, TraceError>), Pace::Closed(DEPTH), world.now());
    match player.play(world, front, |_| watch.cancelled()) {
        Ok(End::Whole) => Ok(()),
        Ok(End::Cancelled) => Err(Error::Cancelled),
        Err(why) => Err(broken(kind, why)),
    }
}

fn drain<L: Layer>(kind: Lab, world: &mut World<L>) -> Result<(), Error> {
    world.drain().map_err(|why| broken(kind, why.into()))
}

fn broken(kind: Lab, why: PlayError) -> Error {
    Error::Failed(why.named(kind.name(), "the drives of the laboratory").to_string())
}
