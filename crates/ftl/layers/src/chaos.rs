//! What a chaos run chooses for a layer. `crates/check/chaos` has the dice and asks here.
//!
//! Each list is drawn from once a seed, and a word that is in it twice comes twice as often. A list
//! of one item costs no draw, nor does a chance of 0: what a layer adds here changes no seed of
//! another layer. Chances are in thousandths.

use crate::config::LayerConfig;

/// Where the choices come from.
pub trait Chance {
    /// A number below `n`, which is at least 1.
    fn below(&mut self, n: u64) -> u64;
}

impl dyn Chance + '_ {
    /// A number from `low` to `high`, both possible.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `permille` of 1000 throws.
    pub fn chance(&mut self, permille: u32) -> bool {
        permille > 0 && self.below(1000) < u64::from(permille)
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// See the module text.
#[derive(Debug)]
pub struct Chaos {
    /// How many devices the stack has.
    pub devices: &'static [u32],
    /// How often a stack of several devices has parity or a mirror, and how often one that has, of
    /// three devices or more, has two parities.
    pub parity: (u32, u32),
    /// How often it has a journal.
    pub journal: u32,
    /// MiB of each device.
    pub megabytes: &'static [u64],
    /// The size of each device in sectors, where that is always the same.
    pub sectors: Option<u64>,
    /// The unit in which the layer writes, in sectors.
    pub superpages: &'static [u32],
    /// Whether the devices' map unit may be smaller than that.
    pub has_small_units: bool,
    /// The spare, in thousandths.
    pub spares: &'static [u32],
    /// Whether short flushes are worth a run of their own.
    pub stacks_flushes: bool,
    /// The large volume that one seed in 80 has; `None` where there is none.
    pub large: Option<Large>,
    /// The segments of zoned devices; `None` for a layer that takes block devices alone.
    pub segments: Option<Strips>,
    /// Which events a run must have seen: the letters of the table in
    /// `crates/check/chaos/src/events.rs`.
    pub events: &'static str,
    /// Its share of the steps that `make test` makes, against those of other layers.
    pub weight: u32,
    /// How often an operator wants something of it while it serves.
    pub verbs: u32,
    /// Draws what only this layer can be told.
    pub vary: fn(&mut LayerConfig, &mut dyn Chance),
}

/// What is different on a large volume.
#[derive(Clone, Copy, Debug)]
pub struct Large {
    /// The unit in which the layer writes, in sectors; empty where that stays as it was.
    pub superpages: &'static [u32],
    /// How often that is the case, and what it does to the parameters.
    pub also: (u32, fn(&mut LayerConfig)),
}

/// How long segments are, and how many.
#[derive(Clone, Copy, Debug)]
pub struct Strips {
    /// Strips of a segment.
    pub counts: &'static [u32],
    /// The most strips in the segments of all parallel units together.
    pub most: u32,
    /// The most parallel units.
    pub units: u32,
    /// The fewest segments in each unit, for each unit that there is.
    pub least: u32,
    /// Whether the layer reads what it has just written.
    pub reads_at_once: bool,
}

impl Large {
    /// What most layers have.
    pub const USUAL: Large = Large { superpages: &[16, 16, 32, 128], also: (0, |_| {}) };
}

impl Strips {
    /// What a layer has that wants nothing else.
    pub const USUAL: Strips = Strips {
        counts: &[4, 4, 8, 16],
        most: u32::MAX,
        units: u32::MAX,
        least: 0,
        reads_at_once: false,
    };
}

impl Chaos {
    /// What a layer on one block device has that wants nothing else.
    pub const USUAL: Chaos = Chaos {
        devices: &[1],
        parity: (0, 0),
        journal: 0,
        megabytes: &[1, 1, 1, 2, 2, 4, 8],
        sectors: None,
        superpages: &[16, 16, 32, 64],
        has_small_units: false,
        spares: &[20, 20, 70, 200],
        stacks_flushes: false,
        large: Some(Large::USUAL),
        segments: None,
        events: "ob",
        weight: 3,
        verbs: 0,
        vary: |_, _| {},
    };
}
