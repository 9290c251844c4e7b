//! The cases of the reference model, and writes of several sizes, aligned and misaligned.

use hostftl_layers::LayerConfig;
use hostftl_trace::{Grain, Op, Record};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::LBA;
use crate::Options;

/// Sectors per page of the drive.
const PAGE: u32 = 32;
/// Sectors per MiB.
const MIB: u64 = 2048;
/// Minimum size of the data in sectors, so that the drive has blocks to collect.
pub(super) const LEAST: u64 = 256 * MIB;

/// Random writes over 512 MiB, with the figures of the reference model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    /// Name.
    pub name: &'static str,
    /// Free capacity in per cent.
    pub free: u32,
    /// Length of a write in sectors.
    pub size: u64,
    /// Alignment of writes in sectors.
    pub grain: u64,
    /// Misalignment of all writes in sectors.
    pub offset: u64,
    /// Whether nine of ten writes go to a tenth of the data.
    pub skew: bool,
    /// Scrambler.
    pub layer: &'static str,
    /// Share of its pages that the drive exports, in per cent.
    pub exported: f64,
    /// Time per request without and with the scrambler in us, if known.
    pub times: [Option<f64>; 2],
    /// Gain.
    pub gain: f64,
    /// Changes of copies and erases in per cent, if known.
    pub changes: Option<[f64; 2]>,
}

/// The scrambler with its default slot of 4 KiB.
pub(super) const PLAIN: &str = "scrambler:spare=0";
/// The scrambler with a slot that is chosen by the first writes.
const AUTO: &str = "scrambler:spare=0:slot=auto";

const fn case(name: &'static str, free: u32, size: u64, times: [f64; 2], gain: f64) -> Reference {
    Reference {
        name,
        free,
        size,
        grain: size,
        offset: 0,
        skew: false,
        layer: PLAIN,
        exported: 95.0,
        times: [Some(times[0]), Some(times[1])],
        gain,
        changes: None,
    }
}

/// The reference table in its order, and an additional row with fewer addresses.
pub(super) const REFERENCE: [Reference; 9] = [
    Reference {
        changes: Some([-72.0, -47.0]),
        ..case("20 % free, 4 KiB", 20, 8, [4946.0, 2635.0], 1.88)
    },
    Reference {
        grain: 8,
        changes: Some([-77.0, -48.0]),
        ..case("20 %, 8 KiB", 20, 16, [6188.0, 3206.0], 1.93)
    },
    Reference {
        layer: "scrambler:spare=0:slot=2k",
        changes: Some([-89.0, -58.0]),
        ..case("20 %, 2 KiB slots and writes", 20, 4, [4949.0, 2079.0], 2.38)
    },
    Reference {
        grain: 8,
        changes: Some([-58.0, -26.0]),
        ..case("20 %, 16 KiB unaligned", 20, 32, [8640.0, 6412.0], 1.35)
    },
    Reference {
        skew: true,
        changes: Some([-66.0, -48.0]),
        ..case("20 %, 90/10 skew, 4 KiB", 20, 8, [6443.0, 3344.0], 1.93)
    },
    Reference {
        changes: Some([-82.0, -28.0]),
        ..case("40 %, 4 KiB", 40, 8, [2585.0, 1870.0], 1.38)
    },
    case("80 %, 4 KiB", 80, 8, [1728.0, 1668.0], 1.04),
    Reference {
        layer: "scrambler:spare=0:slot=page",
        changes: Some([19.0, 12.0]),
        ..case("20 %, page-grain slots", 20, 32, [4679.0, 5264.0], 0.89)
    },
    Reference {
        exported: 85.0,
        times: [None, None],
        ..case("20 %, 4 KiB, addresses for 85 % of the pages", 20, 8, [0.0, 0.0], 1.52)
    },
];

impl Reference {
    /// Returns the size of the data in sectors.
    pub(crate) fn data(options: &Options) -> u64 {
        options.size.pick(LEAST, 512 * MIB, 512 * MIB)
    }

    /// Returns an infinite sequence of writes.
    pub(crate) fn writes(&self, data: u64, seed: u64) -> impl Iterator<Item = Record> + use<> {
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (size, grain, skew) = (self.size, self.grain, self.skew);
        let (offset, units) = (self.offset, (data - size - self.offset) / grain + 1);
        let hot = units / 10;
        std::iter::repeat_with(move || {
            let unit = match skew {
                true if dice.random_range(0..10) < 9 => dice.random_range(0..hot),
                true => dice.random_range(hot..units),
                false => dice.random_range(0..units),
            };
            Record::new(0, Op::Write, 0, unit * grain + offset, size)
        })
    }
}

impl Reference {
    /// Returns the slot in sectors that the first writes select.
    pub(crate) fn chosen_slot(&self, data: u64, seed: u64) -> u32 {
        let mut grain = Grain::default();
        for write in self.writes(data, seed) {
            grain.see(&write);
            if grain.is_known() {
                break;
            }
        }
        let mut config = LayerConfig::parse(AUTO).expect("a test checks the workload");
        config.suit(grain.sectors(), PAGE);
        config.scrambler.slot
    }
}

/// Misalignment of partitions on servers at the time of the traces in sectors: the first partition
/// began at sector 63. It is an inference that src1_0's server was one of these.
pub(super) const MISALIGNED: u64 = 63;

/// Returns cases of writes of 8 to 64 KiB in units of their own size, aligned and misaligned, with
/// slots of one LBA.
pub(super) fn sizes() -> Vec<Reference> {
    let names = ["8 KiB", "16 KiB", "32 KiB", "64 KiB"];
    let sizes = names.into_iter().zip([16, 32, 64, 128]);
    let both = sizes.flat_map(|(name, size)| [0, MISALIGNED].map(|offset| (name, size, offset)));
    let case = |(name, size, offset)| Reference {
        name,
        size,
        grain: size,
        offset,
        layer: LBA,
        ..REFERENCE[0]
    };
    both.map(case).collect()
}
