//! Registration of `log`: its parameters, properties and tests.

pub(crate) mod effects;

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
use crate::promises::Promises;
use crate::registration::{Devices, Registered, Registration};
use crate::roots::Roots;

use crate::log::Log;
use crate::log::params::{FAULT_AFTER, SpareRule, USUAL_SHARE};
use crate::log::recovery::last_on::{last_on, roots_at};

impl Registered for Log {}

const COMPRESS: Parameter = Parameter {
    key: "compress",
    value: "none|lz4|zstd|zstd-LEVEL",
    about: "compression of blocks; zstd: same as zstd-3",
    set: |config, word| {
        let codec = codec(word);
        config.log.compress = codec.ok_or("none, lz4, zstd or zstd-1 to zstd-19")?;
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
        about: "chunk size per device, at most 1m; raised to the requirements of the devices",
        ..SUPERPAGE
    },
    Parameter {
        value: "auto|0..=90",
        about: "over-provisioning for GC, in percent of the devices; auto: enough for segments as \
                long as the reclaim unit",
        set: |config, word| {
            let is_auto = word == "auto";
            config.log.spare = if is_auto { SpareRule::Auto } else { SpareRule::Stated };
            let known = |_| "auto, or a percentage from 0 to 90";
            if is_auto { Ok(()) } else { (SPARE.set)(config, word).map_err(known) }
        },
        get: |config| match config.log.spare {
            SpareRule::Auto => Some("auto".to_string()),
            SpareRule::Usual => None,
            SpareRule::Stated => (SPARE.get)(config),
        },
        ..SPARE
    },
    COMPRESS,
    Parameter {
        key: "parity",
        value: "yes|no|2",
        about: "parity chunks per stripe; yes: one (a mirror on two devices), which covers the \
                loss of any device; 2: covers the loss of any two",
        set: |config, word| {
            config.log.parity = match word {
                "2" => 2,
                _ => truth(word).map_err(|_| "yes, no or 2")?.into(),
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
        about: "victim policy of garbage collection",
        set: |config, word| {
            config.log.gc = word.parse().map_err(|_| GcPolicy::KNOWN)?;
            Ok(())
        },
        get: |config| Some(config.log.gc.to_string()),
    },
    Parameter {
        key: "separation",
        value: Separation::WORDS,
        about: "separation of data into segments; phases: GC and host writes take turns in one \
                stream; two: host writes and GC copies; lifetime: by expected lifetime; rate: by \
                update rate; auto: phases, or lifetime on small devices, zones and with placement \
                ids",
        set: |config, word| {
            config.log.chooses_separation = word == "auto";
            if !config.log.chooses_separation {
                config.log.separation = word.parse().map_err(|_| Separation::KNOWN)?;
            }
            Ok(())
        },
        get: |config| {
            let is_auto = config.log.chooses_separation;
            Some(if is_auto { "auto".to_string() } else { config.log.separation.to_string() })
        },
    },
    Parameter {
        key: "journal",
        value: "yes|no",
        about: "journal for flushes on the last device of the stack; default: no",
        set: |config, word| truth(word).map(|yes| config.log.journal = yes),
        get: |config| config.log.journal.then(|| truth_text(true)),
    },
    Parameter {
        key: "map-memory",
        value: "0..",
        about: "memory for map pages, raised to the minimum of the map; default: the whole map of \
                a small volume, in proportion to the capacity of a large one",
        set: |config, word| {
            config.log.map_memory = Some(parameter::size(word).ok_or("a size such as 256m")?);
            Ok(())
        },
        get: |config| config.log.map_memory.map(size_text),
    },
    Parameter {
        key: "rebuild-share",
        value: "1..=100",
        about: "rate of background work (rebuild, scrub) during host I/O, in percent of its \
                maximum; default: 30",
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
        about: "number of failed reads and checksum mismatches within 10 minutes at which a device \
                is marked failed, if redundancy allows; 0: never; default: 50",
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
        about: "capacity that the host sees; may exceed the stored capacity, which depends on \
                compression and zeros; default: the capacity without them",
        set: |config, word| {
            let size = parameter::in_units(word, 4096).filter(|size| *size > 0);
            config.log.logical_size = Some(size.ok_or("a size in steps of 4k, such as 4t")?);
            Ok(())
        },
        get: |config| config.log.logical_size.map(size_text),
    },
    Parameter {
        key: "reclaim-unit",
        value: "4k..",
        about: "reclaim unit of a device, which sets the segment size; default: as the device \
                reports",
        set: |config, word| {
            let unit =
                parameter::in_units(word, 4096).ok_or("a size in steps of 4k, such as 64m")?;
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
    let rules = [
        Separation::None,
        Separation::Phases,
        Separation::Phases,
        Separation::Two,
        Separation::Lifetime,
        Separation::Rate,
    ];
    (config.log.separation, config.log.chooses_separation) = (dice.pick(&rules), false);
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
        does: "compresses blocks and packs them into stripes over all devices, with optional \
               parity",
        pays: "valuable data: checksums, redundancy, compression and large sequential writes on \
               every kind of device; add a journal if each small write is flushed",
        limits: "256 TiB per device, 2.6 PiB of blocks in total; 2^30 segments; zones of at most \
                 64 GiB, at least four of them open; no journal with zoned devices",
    },
    format: 5,
    devices: Devices::Array,
    parameters: PARAMETERS,
    effect: effects::effect,
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
        admin_commands: 500,
        vary,
        ..Chaos::USUAL
    },
};
