//! Registration of `log`: its parameters, properties and tests.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use hostftl_core::Codec;

use crate::about::About;
use crate::chaos::{Chance, Chaos, Large, Strips};
use crate::config::LayerConfig;
use crate::kind::LayerKind;
use crate::parameter::{self, Parameter, SPARE, SUPERPAGE, size_text, truth, truth_text};
use crate::policy::{GcPolicy, Separation};
use crate::registration::{Devices, Promises, Registered, Registration};
use crate::roots::Roots;

use crate::log::Log;
use crate::log::params::{FAULT_AFTER, USUAL_SHARE};
use crate::log::recovery::last_on::{last_on, roots_at};

impl Registered for Log {}

const COMPRESS: Parameter = Parameter {
    key: "compress",
    value: "none|lz4|zstd|zstd-LEVEL",
    about: "how blocks are compressed; zstd is zstd-3",
    set: |config, word| {
        let codec = codec(word);
        config.log.compress =
            codec.ok_or("none, lz4, zstd, or zstd-LEVEL with a level from 1 to 19")?;
        Ok(())
    },
    get: |config| {
        Some(match config.log.compress {
            Codec::Raw => String::from("none"),
            Codec::Lz4 => String::from("lz4"),
            Codec::Zstd(level) => format!("zstd-{level}"),
        })
    },
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        value: "16k..",
        about: "the chunk: what a row has on each device, 1m at most; the devices may need more",
        ..SUPERPAGE
    },
    Parameter {
        value: "auto|0..=90",
        about: "over-provisioning: the percentage of the devices that is kept free for GC; auto: \
                as much as segments need that are as long as what a device erases at once",
        set: |config, word| {
            config.log.chooses_spare = word == "auto";
            let known = |_| "auto, or a percentage from 0 to 90";
            if config.log.chooses_spare { Ok(()) } else { (SPARE.set)(config, word).map_err(known) }
        },
        get: |config| {
            if config.log.chooses_spare { Some("auto".to_string()) } else { (SPARE.get)(config) }
        },
        ..SPARE
    },
    COMPRESS,
    Parameter {
        key: "parity",
        value: "yes|no|2",
        about: "whether each row has a chunk of parity, and on two devices a mirror, so that any \
                one device may be lost; with 2 chunks of it any two may be",
        set: |config, word| {
            config.log.parity = match word {
                "2" => 2,
                _ => truth(word).map_err(|_| "yes, no, or 2 for two chunks of it")?.into(),
            };
            Ok(())
        },
        get: |config| match config.log.parity {
            2 => Some("2".to_string()),
            parity => Some(truth_text(parity > 0)),
        },
    },
    Parameter {
        key: "gc",
        value: GcPolicy::WORDS,
        about: "which segment is collected next",
        set: |config, word| {
            config.log.gc = word.parse().map_err(|_| GcPolicy::KNOWN)?;
            Ok(())
        },
        get: |config| Some(config.log.gc.to_string()),
    },
    Parameter {
        key: "separation",
        value: Separation::WORDS,
        about: "what is kept apart in segments of its own",
        set: |config, word| {
            config.log.separation = word.parse().map_err(|_| Separation::KNOWN)?;
            Ok(())
        },
        get: |config| Some(config.log.separation.to_string()),
    },
    Parameter {
        key: "journal",
        value: "yes|no",
        about: "whether the last device of the stack is a journal, to which flushes go",
        set: |config, word| truth(word).map(|yes| config.log.journal = yes),
        get: |config| config.log.journal.then(|| truth_text(true)),
    },
    Parameter {
        key: "map-memory",
        value: "0..",
        about: "the memory for map pages, or the least that the map works with; not set, enough \
                for all of a small volume, and a share of what a large one exports",
        set: |config, word| {
            config.log.map_memory = Some(parameter::size(word).ok_or("a size, as 256m")?);
            Ok(())
        },
        get: |config| config.log.map_memory.map(size_text),
    },
    Parameter {
        key: "rebuild-share",
        value: "1..=100",
        about: "the percentage of its best rate that work in the background has beside a host: \
                after a loss, for a scrub; not set, 30",
        set: |config, word| {
            let share = word.parse().ok().filter(|share| (1..=100).contains(share));
            config.log.rebuild_share = share.ok_or("a percentage from 1 to 100")?;
            Ok(())
        },
        get: |config| {
            let share = config.log.rebuild_share;
            (share != USUAL_SHARE).then(|| share.to_string())
        },
    },
    Parameter {
        key: "fault-after",
        value: "0..=65535",
        about: "failed reads and checksum mismatches of a device within 10 minutes after which \
                the volume goes on without it, if it can; 0 for never; not set, 50",
        set: |config, word| {
            config.log.fault_after = word.parse().map_err(|_| "a number from 0 to 65535")?;
            Ok(())
        },
        get: |config| {
            let limit = config.log.fault_after;
            (limit != FAULT_AFTER).then(|| limit.to_string())
        },
    },
    Parameter {
        key: "logical-size",
        value: "4k..",
        about: "what the host sees, which may be more than fits: how much does, compression and \
                zeros decide; not set, what fits without them",
        set: |config, word| {
            let size = parameter::in_units(word, 4096).filter(|size| *size > 0);
            config.log.logical_size = Some(size.ok_or("a size in steps of 4k, as 4t")?);
            Ok(())
        },
        get: |config| config.log.logical_size.map(size_text),
    },
    Parameter {
        key: "reclaim-unit",
        value: "4k..",
        about: "what a device erases at once, so that a segment is as large; not set, what the \
                device says",
        set: |config, word| {
            let unit = parameter::in_units(word, 4096).ok_or("a size in steps of 4k, as 64m")?;
            config.log.reclaim_unit = Some(unit);
            Ok(())
        },
        get: |config| config.log.reclaim_unit.map(size_text),
    },
];

fn codec(word: &str) -> Option<Codec> {
    match word {
        "none" => Some(Codec::Raw),
        "lz4" => Some(Codec::Lz4),
        "zstd" => Some(Codec::Zstd(3)),
        _ => {
            let level = word.strip_prefix("zstd-")?.parse().ok()?;
            (1..=19).contains(&level).then_some(Codec::Zstd(level))
        }
    }
}

fn vary(config: &mut LayerConfig, dice: &mut dyn Chance) {
    let rules = [Separation::None, Separation::Two, Separation::Lifetime, Separation::Rate];
    config.log.separation = dice.pick(&rules);
    config.log.reclaim_unit = dice.pick(&[None, None, Some(128 << 10), Some(1 << 20)]);
    if dice.chance(500) {
        config.log.few_pairs = true;
        config.log.map_memory = dice.pick(&[None, Some(0), Some(0), Some(128 << 10)]);
    }
    config.log.logical_size = dice.pick(&[None, None, None, None, Some(6 << 20), Some(20 << 20)]);
}

/// Registration, see [`crate::registry`].
pub(crate) const REGISTRATION: Registration = Registration {
    kind: LayerKind::Log,
    name: "log",
    about: About {
        does: "blocks are compressed and packed into rows over all devices, perhaps with parity",
        pays: "data that people keep: checksums, redundancy and compression, and large sequential \
               writes on every kind of device; with flushes after each small write give it a \
               journal",
        limits: "256 TiB a device, 2.6 PiB of blocks in all; 2^30 segments; zones of 64 GiB at the \
                 most, at least four of which may be open; no journal beside zoned devices",
    },
    format: 4,
    devices: Devices::Array,
    parameters: PARAMETERS,
    defaults: |_| {},
    reads_metadata: true,
    promises: Promises {
        does_without: |config| config.log.parity.into(),
        tells_corrupt: true,
        roots: Some(Roots { at: roots_at, last_on }),
        ..Promises::USUAL
    },
    plan: Log::plan,
    new: |config, devices, buffers, mode| Ok(Box::new(Log::new(config, devices, buffers, mode)?)),
    chaos: Chaos {
        devices: &[1, 2, 2, 3, 3, 4, 5],
        parity: (750, 600),
        journal: 400,
        megabytes: &[1, 2, 4, 8, 8, 16, 16],
        superpages: &[32, 32, 64, 64],
        has_small_units: true,
        // Much spare allows several classes of data.
        spares: &[20, 70, 200, 500, 600, 600],
        stacks_flushes: true,
        large: Some(Large { superpages: &[], ..Large::USUAL }),
        segments: Some(Strips { reads_at_once: true, ..Strips::USUAL }),
        verbs: 500,
        vary,
        ..Chaos::USUAL
    },
};
