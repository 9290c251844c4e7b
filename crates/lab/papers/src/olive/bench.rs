//! What fio does to the array: one pattern at one depth, and how fast that is.

use hostftl_core::Payload;
use hostftl_drives::olive::{Conflicts, Olive, OliveSpec};
use hostftl_drives::{Clock, Model};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};
use hostftl_sim::{End, Front, HostCosts, Pace, Player, World};
use hostftl_trace::{Op, Record};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Error;

/// Requests of a run.
const REQUESTS: u64 = 20_000;
/// Sectors that are read: so many are written before.
const READ: u64 = 1 << 21;
/// Requests under way wherever the paper does not speak of their number, which is everywhere.
pub(super) const DEPTH: u32 = 8;

/// What drives the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    /// The block driver: what is written lies where its address says.
    Block,
    /// LightNVM: a media manager over raw chips.
    LightNvm(LayerKind),
}

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// One after the other.
    Sequential,
    /// One after the other over the stripes of one chip: what a stream sees of a wide interleave.
    OneChip,
    /// Anywhere.
    Random,
    /// Each on the next chip, behind what that chip was sent before.
    InTurns,
}

/// One run of fio.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    /// The array.
    pub spec: OliveSpec,
    /// Reads or writes.
    pub op: Op,
    /// Where they go.
    pub walk: Walk,
    /// Sectors of each.
    pub sectors: u32,
    /// What drives the array.
    pub driver: Driver,
    /// How many are under way.
    pub depth: u32,
}

/// What a run found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Requests in a second.
    pub iops: f64,
    /// 10^6 bytes in a second.
    pub mbs: f64,
    /// What waited for what.
    pub conflicts: Conflicts,
}

impl Bench {
    /// Runs it.
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
