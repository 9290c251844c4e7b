//! Registration of `tier`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use crate::about::About;
use crate::chaos::{Chaos, Large};
use crate::config::LayerConfig;
use crate::effect::{Effect, Usage};
use crate::kind::LayerKind;
use crate::parameter::{Parameter, sectors_text, short};
use crate::promises::Promises;
use crate::registration::{Devices, Registered, Registration};

use super::Tier;
use super::layout::Layout;
use super::params::Policy;

impl Registered for Tier {}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        key: "page",
        value: "4k..=1m",
        about: "unit of moves between the devices, in steps of 4k",
        set: |config, word| short(word).map(|sectors| config.tier.page = sectors),
        get: |config| Some(sectors_text(config.tier.page.into())),
    },
    Parameter {
        key: "policy",
        value: "lru|exclusive|writes|after-N",
        about: "pages that are cached on the fast device; lru: pages that are read or written; \
                exclusive: the same, and every eviction writes; writes: written pages; after-N: \
                pages that are read or written N times",
        set: |config, word| {
            let policy = policy(word);
            config.tier.policy =
                policy.ok_or("lru, exclusive, writes or after-N with N from 2 to 255")?;
            Ok(())
        },
        get: |config| {
            Some(match config.tier.policy {
                Policy::Lru => String::from("lru"),
                Policy::Exclusive => String::from("exclusive"),
                Policy::Writes => String::from("writes"),
                Policy::After(accesses) => format!("after-{accesses}"),
            })
        },
    },
    Parameter {
        key: "free",
        value: "1..=50",
        about: "free space for incoming pages, in percent of the fast device",
        set: |config, word| {
            let share = word.parse().ok().filter(|share| (1..=50).contains(share));
            config.tier.free = share.ok_or("a percentage from 1 to 50")?;
            Ok(())
        },
        get: |config| Some(config.tier.free.to_string()),
    },
];

fn effect(config: &LayerConfig, key: &str, usage: &Usage) -> Effect {
    if key == "free" { free(config, usage) } else { Effect::Full }
}

/// The effect of the free space, which is at least one page.
fn free(config: &LayerConfig, usage: &Usage) -> Effect {
    match Layout::new(config.tier.page, usage.devices) {
        Ok(layout) if layout.slots * config.tier.free < 100 => {
            Effect::Limited("raised to one page of the fast device".into())
        }
        _ => Effect::Full,
    }
}

fn policy(word: &str) -> Option<Policy> {
    match word {
        "lru" => Some(Policy::Lru),
        "exclusive" => Some(Policy::Exclusive),
        "writes" => Some(Policy::Writes),
        _ => {
            let accesses = word.strip_prefix("after-")?.parse().ok()?;
            (accesses >= 2).then_some(Policy::After(accesses))
        }
    }
}

/// Registration of `tier`.
pub(crate) const REGISTRATION: Registration = Registration {
    kind: LayerKind::Tier,
    name: "tier",
    about: About {
        does: "a write-back cache: a fast device in front of a slow one",
        pays: "a small fast device in front of a large slow one, and a workload with locality; \
               not for a working set much larger than the fast device, and not if the volume must \
               survive the loss of a device",
        limits: "less than 2^32 pages of the slow device (64 TiB with pages of 16k, 4 PiB with 1m)",
    },
    format: 1,
    devices: Devices::FastAndSlow,
    parameters: PARAMETERS,
    effect,
    defaults: |_| {},
    reads_metadata: false,
    promises: Promises { knows_lost: true, reads_unwritten: true, ..Promises::USUAL },
    plan: Tier::plan,
    new: |config, devices, buffers, mode| Ok(Box::new(Tier::new(config, devices, buffers, mode)?)),
    chaos: Chaos {
        devices: &[2],
        large: Some(Large { superpages: &[], ..Large::USUAL }),
        events: "t",
        ..Chaos::USUAL
    },
};
