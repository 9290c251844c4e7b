//! What fio does to the array: one pattern at one depth, and how fast that is.

use hostftl_drives::Model;
use hostftl_drives::olive::{Conflicts, Olive, OliveSpec};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};
use hostftl_sim::{End, Front, HostCosts, Pace, Player, World};
use hostftl_trace::{Op, Record};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Error;

/// Requests of a run.
const REQUESTS: u64 = 20_000;

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// One after the other.
    Sequential,
    /// One after the other over the stripes of one chip: what a stream sees of a wide interleave.
    OneChip,
    /// Anywhere.
    Random,
}

/// One run of fio.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The array.
    pub spec: OliveSpec,
    /// Reads or writes.
    pub op: Op,
    /// Where they go.
    pub walk: Walk,
    /// Sectors of each.
    pub sectors: u32,
    /// How many are under way.
    pub depth: u32,
}

/// What a run found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Requests in a second.
    pub iops: f64,
    /// 10^6 bytes in a second.
    pub mbs: f64,
    /// What waited for what.
    pub conflicts: Conflicts,
}

impl Bench {
    /// Runs it.
    ///
    /// # Errors
    /// When the world breaks a law.
    pub fn run(&self, seed: u64) -> Result<Found, Error> {
        let failed = |why: String| Error::Failed(format!("olive: {why}"));
        let olive = Olive::new(&self.spec);
        let config = LayerConfig::new(LayerKind::Passthrough);
        let layer = AnyLayer::new(&config, &[olive.info()], Vec::new(), Mode::Format);
        let layer = layer.map_err(|why| failed(why.to_string()))?;
        let world = World::of(layer, vec![olive], HostCosts::default());
        let mut world = world.map_err(|why| failed(why.to_string()))?;
        let mut front = Front::new(&world);
        let start = world.now();
        let mut player = Player::new(self.records(seed).map(Ok), Pace::Closed(self.depth), start);
        match player.play(&mut world, &mut front, |_| false) {
            Ok(End::Whole) => {}
            Ok(End::Cancelled) => return Err(Error::Cancelled),
            Err(why) => return Err(failed(why.named("passthrough", "olive").to_string())),
        }
        let iops = REQUESTS as f64 * 1e9 / (world.now() - start) as f64;
        let mbs = iops * f64::from(self.sectors) * 512.0 / 1e6;
        Ok(Found { iops, mbs, conflicts: world.devices()[0].conflicts() })
    }

    fn records(&self, seed: u64) -> impl Iterator<Item = Record> + use<> {
        let Bench { spec, op, walk, sectors, .. } = self.clone();
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let wide = u64::from(sectors);
        let slots = spec.sectors / wide;
        let (stripe, chips) = (u64::from(spec.interleave), spec.chips as u64);
        (0..REQUESTS).map(move |index| {
            let at = match walk {
                Walk::Random => dice.random_range(0..slots) * wide,
                Walk::Sequential => index % slots * wide,
                Walk::OneChip => {
                    let within = index * wide;
                    (within / stripe * chips * stripe + within % stripe) % spec.sectors
                }
            };
            Record::new(0, op, 0, at, wide)
        })
    }
}
