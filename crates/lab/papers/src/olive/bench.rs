//! fio runs on the array: the speed of one pattern at one queue depth.

use hostftl_core::Payload;
use hostftl_drives::{Clock, Model};
use hostftl_lab_devices::olive::{Conflicts, Olive, OliveSpec};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};
use hostftl_sim::{End, Front, HostCosts, Pace, Player, World};
use hostftl_trace::{Op, Record};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Error;

/// Number of requests of a run.
const REQUESTS: u64 = 20_000;
/// Number of sectors that are written before, and then read.
const READ: u64 = 1 << 21;
/// Default queue depth. The paper never states it.
pub(super) const DEPTH: u32 = 8;

/// Driver of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    /// The block driver: data is stored at its address.
    Block,
    /// LightNVM: a media manager on raw chips.
    LightNvm(LayerKind),
}

/// Access pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// Sequential.
    Sequential,
    /// Sequential over the stripes of one chip: the access of a single stream under a wide
    /// interleave.
    OneChip,
    /// Random.
    Random,
    /// Chips in rotation, each sequentially.
    InTurns,
}

/// One run of fio.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    /// Array.
    pub spec: OliveSpec,
    /// Reads or writes.
    pub op: Op,
    /// Access pattern.
    pub walk: Walk,
    /// Sectors per request.
    pub sectors: u32,
    /// Driver.
    pub driver: Driver,
    /// Queue depth.
    pub depth: u32,
}

/// Results of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Requests per second.
    pub iops: f64,
    /// Speed in 10^6 bytes per second.
    pub mbs: f64,
    /// Waiting times by cause.
    pub conflicts: Conflicts,
}

impl Bench {
    /// Runs the benchmark.
    pub(super) fn run(&self, seed: u64) -> Result<Found, Error> {
        let mut world = self.world()?;
        if self.op == Op::Read && self.driver != Driver::Block {
            world.set_clock(Clock::Counts);
            let fill = (0..READ / 256).map(|index| Record::new(0, Op::Write, 0, index * 256, 256));
            play(&mut world, fill, DEPTH)?;
            world.drain().map_err(|why| failed(why.to_string()))?;
            world.set_clock(Clock::Timed);
        }
        let start = world.now();
        play(&mut world, self.records(seed), self.depth)?;
        let iops = REQUESTS as f64 * 1e9 / (world.now() - start) as f64;
        let mbs = iops * f64::from(self.sectors) * 512.0 / 1e6;
        Ok(Found { iops, mbs, conflicts: world.devices()[0].conflicts() })
    }

    fn world(&self) -> Result<World<AnyLayer, Olive>, Error> {
        let (kind, raw) = match self.driver {
            Driver::Block => (LayerKind::Passthrough, false),
            Driver::LightNvm(kind) => (kind, true),
        };
        let olive = Olive::new(&OliveSpec { raw, ..self.spec.clone() });
        let (config, devices) = (LayerConfig::new(kind), [olive.info()]);
        let plan = AnyLayer::plan(&config, &devices).map_err(|why| failed(why.to_string()))?;
        let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
        let layer = AnyLayer::new(&config, &devices, buffers, Mode::Format);
        let layer = layer.map_err(|why| failed(why.to_string()))?;
        let world = World::of(layer, vec![olive], HostCosts::default());
        world.map_err(|why| failed(why.to_string()))
    }

    fn records(&self, seed: u64) -> impl Iterator<Item = Record> + use<> {
        let Bench { spec, op, walk, sectors, .. } = self.clone();
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let wide = u64::from(sectors);
        let span = if op == Op::Read { READ } else { spec.sectors / 4 * 3 };
        let slots = span / wide;
        let (stripe, chips) = (u64::from(spec.interleave), spec.chips as u64);
        let on_chip = move |chip: u64, within: u64| {
            ((within / stripe * chips + chip) * stripe + within % stripe) % spec.sectors
        };
        (0..REQUESTS).map(move |index| {
            let at = match walk {
                Walk::Random => dice.random_range(0..slots) * wide,
                Walk::Sequential => index % slots * wide,
                Walk::OneChip => on_chip(0, index * wide),
                Walk::InTurns => on_chip(index % chips, index / chips * wide),
            };
            Record::new(0, op, 0, at, wide)
        })
    }
}

fn failed(why: String) -> Error {
    Error::Failed(format!("olive: {why}"))
}

fn play(
    world: &mut World<AnyLayer, Olive>,
    records: impl Iterator<Item = Record>,
    depth: u32,
) -> Result<(), Error> {
    let (mut front, start) = (Front::new(world), world.now());
    let mut player = Player::new(records.map(Ok), Pace::Closed(depth), start);
    match player.play(world, &mut front, |_| false) {
        Ok(End::Whole) => Ok(()),
        Ok(End::Cancelled) => Err(Error::Cancelled),
        Err(why) => Err(failed(why.named("its layer", "olive").to_string())),
    }
}
