//! Registration of `pblk` and `rrpc`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use hostftl_core::SECTOR;

use crate::about::About;
use crate::chaos::{Chance, Chaos, Strips};
use crate::config::LayerConfig;
use crate::effect::{self, Bytes, Effect, Usage};
use crate::kind::LayerKind;
use crate::parameter::{Parameter, SPARE, SUPERPAGE};
use crate::policy::GcPolicy;
use crate::promises::Promises;
use crate::registration::{Devices, Registered, Registration};

use super::Zones;
use super::layout::Layout;
use super::params::Reuse;

impl Registered for Zones {
    fn map_crc(&self) -> Option<u32> {
        Some(Zones::map_crc(self))
    }
}

const STRIP: Parameter = Parameter {
    value: "8k..",
    about: "strip size (unit of writes to a segment); rounded up to the write unit of the device \
            and to a divisor of its segments",
    ..SUPERPAGE
};

fn effect(config: &LayerConfig, key: &str, usage: &Usage) -> Effect {
    match key {
        "superpage" => strip(config, usage),
        _ => effect::only_spare(config, key, usage),
    }
}

/// The effect of the strip size, which the segments of the device restrict.
fn strip(config: &LayerConfig, usage: &Usage) -> Effect {
    match Layout::new(config, usage.devices) {
        Ok(layout) if layout.strip != config.superpage => Effect::Limited(format!(
            "strips have {}, which is possible in segments of this length",
            Bytes(u64::from(layout.strip) * SECTOR as u64)
        )),
        _ => Effect::Full,
    }
}

const GC: Parameter = Parameter {
    key: "gc",
    value: GcPolicy::WORDS,
    about: "victim policy of garbage collection; a victim is a line",
    set: |config, word| {
        config.zones.gc = word.parse().map_err(|_| GcPolicy::KNOWN)?;
        Ok(())
    },
    get: |config| Some(config.zones.gc.to_string()),
};

const REUSE: Parameter = Parameter {
    key: "reuse",
    value: "fewest-erases|fifo",
    about: "choice of the free line, or segment of a unit, to fill next",
    set: |config, word| {
        config.zones.reuse = match word {
            "fewest-erases" => Reuse::FewestErases,
            "fifo" => Reuse::Fifo,
            _ => return Err("fewest-erases or fifo"),
        };
        Ok(())
    },
    get: |config| {
        Some(String::from(match config.zones.reuse {
            Reuse::FewestErases => "fewest-erases",
            Reuse::Fifo => "fifo",
        }))
    },
};

fn vary(config: &mut LayerConfig, dice: &mut dyn Chance) {
    config.zones.reuse = dice.pick(&[Reuse::FewestErases, Reuse::FewestErases, Reuse::Fifo]);
}

/// Registration of `pblk`.
pub(crate) const PBLK: Registration = Registration {
    kind: LayerKind::Pblk,
    name: "pblk",
    about: About {
        does: "fills a zoned device line by line; a line has one segment of each parallel unit",
        pays: "the published line-based target of LightNVM: one zoned device that spreads each \
               write over its parallel units; for checksums or redundancy use log",
        limits: "2^32 map pages, beyond 8 PiB; at least twice as many open segments as units, if \
                 the device limits them",
    },
    format: 1,
    devices: Devices::Zoned,
    parameters: &[STRIP, SPARE, GC, REUSE],
    effect,
    defaults: |config| config.spare_permille = 110,
    reads_metadata: true,
    promises: Promises::USUAL,
    plan: Zones::plan,
    new: |config, devices, buffers, mode| Ok(Box::new(Zones::new(config, devices, buffers, mode)?)),
    chaos: Chaos {
        // Lines have lists from 64 strips on.
        segments: Some(Strips { counts: &[4, 8, 16, 32], most: 128, ..Strips::USUAL }),
        events: "o",
        vary,
        ..Chaos::USUAL
    },
};

/// Registration of `rrpc`.
pub(crate) const RRPC: Registration = Registration {
    kind: LayerKind::Rrpc,
    name: "rrpc",
    about: About {
        does: "fills a zoned device segment by segment, with the parallel units in turn",
        pays: "the published round-robin target of LightNVM: one zoned device, and much memory \
               for its map; for checksums or redundancy use log",
        limits: "2^32 map pages, beyond 8 PiB; four times the units must be at most a tenth of \
                 the segments per unit",
    },
    parameters: &[STRIP, SPARE, REUSE],
    defaults: |config| config.spare_permille = 100,
    chaos: Chaos {
        segments: Some(Strips { units: 2, least: 40, ..Strips::USUAL }),
        events: "o",
        vary,
        ..Chaos::USUAL
    },
    ..PBLK
};
