//! Runs of fio on the array: the speed of one access pattern.

use hostftl_core::Payload;
use hostftl_drives::Model;
use hostftl_lab_devices::olive::{Conflicts, Olive, OliveSpec};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};
use hostftl_sim::{End, Front, HostCosts, Pace, Player, World};
use hostftl_trace::{Op, Record};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Error;

/// Number of requests of a run.
const REQUESTS: u64 = 20_000;
/// Requests in progress. Inferred: the paper does not state it.
const DEPTH: u32 = 6;
/// Sequential reads in progress. Inferred from section 4.2: reads of 64 and 128 KiB are fastest at
/// the published interleaves with 2, and with 1 those of 4 KiB reach half their published speed.
const DEPTH_READS: u32 = 2;
/// Writes in progress per chip under LightNVM. Inferred from Table 4, where a stream of writes,
/// which uses one chip, gains 2.05 at 64 KiB and 2.06 at 128 KiB.
pub(super) const WRITES_PER_CHIP: usize = 2;

/// Driver of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    /// The block driver.
    Block,
    /// The block driver under LightNVM, as on the board: it offers addresses, not chips, so data is
    /// stored where the block driver stores it (section 3.3).
    LightNvm,
    /// A media manager of HostFTL on raw chips, which the board does not offer.
    Raw {
        /// The manager.
        kind: LayerKind,
        /// Sectors of a strip.
        strip: u32,
    },
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
    /// Requests in progress.
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
    /// Creates a run on the paper's array, with requests of `kib` KiB.
    pub(super) fn new(driver: Driver, op: Op, walk: Walk, kib: u32) -> Self {
        let depth = if op == Op::Read && walk != Walk::Random { DEPTH_READS } else { DEPTH };
        Bench { spec: OliveSpec::default(), op, walk, sectors: kib * 2, driver, depth }
    }

    fn is_raw(&self) -> bool {
        matches!(self.driver, Driver::Raw { .. })
    }

    /// Returns the number of requests. Media managers write steadily, but slowly in small strips.
    fn requests(&self) -> u64 {
        if self.is_raw() { REQUESTS / 5 } else { REQUESTS }
    }

    /// Sets the requests in progress, and with them the commands to chips.
    pub(super) fn with_depth(mut self, depth: u32) -> Self {
        (self.depth, self.spec.commands) = (depth, depth as usize);
        self
    }

    /// Runs the benchmark.
    pub(super) fn run(&self, seed: u64) -> Result<Found, Error> {
        let mut world = self.world()?;
        let start = world.now();
        play(&mut world, self.records(seed), self.depth)?;
        let iops = self.requests() as f64 * 1e9 / (world.now() - start) as f64;
        let mbs = iops * f64::from(self.sectors) * 512.0 / 1e6;
        Ok(Found { iops, mbs, conflicts: world.devices()[0].conflicts() })
    }

    fn world(&self) -> Result<World<AnyLayer, Olive>, Error> {
        let mut config = LayerConfig::new(LayerKind::Passthrough);
        if let Driver::Raw { kind, strip } = self.driver {
            config = LayerConfig { superpage: strip, ..LayerConfig::new(kind) };
        }
        let raw = self.is_raw();
        let writes_per_chip = if self.driver == Driver::Block { 1 } else { WRITES_PER_CHIP };
        let olive = Olive::new(&OliveSpec { raw, writes_per_chip, ..self.spec.clone() });
        let devices = [olive.info()];
        let plan = AnyLayer::plan(&config, &devices).map_err(|why| failed(why.to_string()))?;
        let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
        let layer = AnyLayer::new(&config, &devices, buffers, Mode::Format);
        let layer = layer.map_err(|why| failed(why.to_string()))?;
        let world = World::of(layer, vec![olive], HostCosts::default());
        world.map_err(|why| failed(why.to_string()))
    }

    /// Returns the requests.
    pub(super) fn records(&self, seed: u64) -> impl Iterator<Item = Record> + use<> {
        let Bench { spec, op, walk, sectors, .. } = self.clone();
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let wide = u64::from(sectors);
        // Strips of 8 KiB leave less than half of the capacity.
        let quarters = if self.is_raw() { 1 } else { 3 };
        let span = spec.sectors / 4 * quarters;
        let slots = span / wide;
        let (stripe, chips) = (u64::from(spec.interleave), spec.chips as u64);
        let on_one_chip =
            move |within: u64| (within / stripe * chips * stripe + within % stripe) % spec.sectors;
        (0..self.requests()).map(move |index| {
            let at = match walk {
                Walk::Random => dice.random_range(0..slots) * wide,
                Walk::Sequential => index % slots * wide,
                Walk::OneChip => on_one_chip(index * wide),
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
