//! Choices of a chaos run for a layer. `crates/check/chaos` draws from them.
//!
//! Each list is drawn from once per seed; an item that occurs twice is twice as likely. A list of
//! one item and a chance of 0 consume no random number, so additions here for one layer change no
//! seed of another. Chances are in thousandths.

use crate::config::LayerConfig;

/// A source of random choices.
pub trait Chance {
    /// Returns a number below `n`, which is at least 1.
    fn below(&mut self, n: u64) -> u64;
}

impl dyn Chance + '_ {
    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns `true` in `permille` of 1000 calls.
    pub fn chance(&mut self, permille: u32) -> bool {
        permille > 0 && self.below(1000) < u64::from(permille)
    }

    /// Returns one of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Choices of a chaos run for a layer.
#[derive(Debug)]
pub struct Chaos {
    /// Number of devices in the stack.
    pub devices: &'static [u32],
    /// Chance of parity or a mirror with several devices, and chance of two parities among those
    /// with three or more devices and parity.
    pub parity: (u32, u32),
    /// Chance of a journal.
    pub journal: u32,
    /// Size of each device in MiB.
    pub megabytes: &'static [u64],
    /// Size of each device in sectors, if it is fixed.
    pub sectors: Option<u64>,
    /// Write unit of the layer in sectors.
    pub superpages: &'static [u32],
    /// Whether the devices' map unit may be smaller than the write unit.
    pub has_small_units: bool,
    /// Over-provisioning in thousandths.
    pub spares: &'static [u32],
    /// Whether half of the seeds have many flushes between small writes.
    pub stacks_flushes: bool,
    /// The large volume of one seed in 80; `None` if there is none.
    pub large: Option<Large>,
    /// The segments of zoned devices; `None` for a layer that only supports block devices.
    pub segments: Option<Strips>,
    /// Events that a run must contain: letters of the table in `crates/check/chaos/src/events.rs`.
    pub events: &'static str,
    /// Share of the steps of `make test`, relative to other layers.
    pub weight: u32,
    /// Chance that an operator issues commands while the volume is served.
    pub admin_commands: u32,
    /// Draws the parameters of this layer only.
    pub vary: fn(&mut LayerConfig, &mut dyn Chance),
}

/// Differences of a large volume.
#[derive(Clone, Copy, Debug)]
pub struct Large {
    /// Write unit of the layer in sectors; empty if it does not differ.
    pub superpages: &'static [u32],
    /// Chance of a change of parameters, and the change.
    pub also: (u32, fn(&mut LayerConfig)),
}

/// Length and number of segments.
#[derive(Clone, Copy, Debug)]
pub struct Strips {
    /// Number of strips in a segment.
    pub counts: &'static [u32],
    /// Maximum number of strips in the segments of all parallel units together.
    pub most: u32,
    /// Maximum number of parallel units.
    pub units: u32,
    /// Minimum number of segments in each unit, per unit.
    pub least: u32,
    /// Whether the layer must be able to read data immediately after writing it.
    pub reads_at_once: bool,
}

impl Large {
    /// The values of most layers.
    pub const USUAL: Large = Large { superpages: &[16, 16, 32, 128], also: (0, |_| {}) };
}

impl Strips {
    /// The values of most layers on zoned devices.
    pub const USUAL: Strips = Strips {
        counts: &[4, 4, 8, 16],
        most: u32::MAX,
        units: u32::MAX,
        least: 0,
        reads_at_once: false,
    };
}

impl Chaos {
    /// The values of most layers on one block device.
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
        admin_commands: 0,
        vary: |_, _| {},
    };
}
