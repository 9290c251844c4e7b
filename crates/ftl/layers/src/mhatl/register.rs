//! Registration of `mhatl`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use crate::about::About;
use crate::chaos::{Chance, Chaos};
use crate::config::LayerConfig;
use crate::effect::{self, Effect, Usage};
use crate::kind::LayerKind;
use crate::parameter::{Parameter, SPARE, SUPERPAGE};
use crate::promises::Promises;
use crate::registration::{Devices, Registered, Registration};

use super::Mhatl;
use super::params::Gather;

impl Registered for Mhatl {}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        value: "8k..=1m",
        about: "unit of writes, in which small writes are collected",
        ..SUPERPAGE
    },
    SPARE,
    Parameter {
        key: "leaves",
        value: "1..=67108864",
        about: "target number of runs of sectors in the map",
        set: |config, word| {
            let leaves = word.parse().ok().filter(|leaves| (1..=1 << 26).contains(leaves));
            config.mhatl.leaves = leaves.ok_or("a number from 1 to 67108864")?;
            Ok(())
        },
        get: |config| Some(config.mhatl.leaves.to_string()),
    },
    Parameter {
        key: "gather",
        value: "lsp|vsp",
        about: "data that is merged when the map has too many runs; lsp: each logical superpage \
                with data in the victim; vsp: the data of the victim",
        set: |config, word| {
            let known = [("lsp", Gather::Lsp), ("vsp", Gather::Vsp)];
            let chosen = known.iter().find(|(known, _)| *known == word);
            config.mhatl.gather = chosen.ok_or("lsp or vsp")?.1;
            Ok(())
        },
        get: |config| {
            Some(String::from(match config.mhatl.gather {
                Gather::Lsp => "lsp",
                Gather::Vsp => "vsp",
            }))
        },
    },
];

fn effect(config: &LayerConfig, key: &str, usage: &Usage) -> Effect {
    match key {
        "leaves" | "gather" => merging(config, usage),
        _ => effect::only_spare(config, key, usage),
    }
}

/// The effect of the limit of leaves: none if each sector may have a leaf.
fn merging(config: &LayerConfig, usage: &Usage) -> Effect {
    let Some(plan) = effect::planned(config, usage, |_| ()) else { return Effect::Full };
    let exported = usage.study.and_then(|study| study.exported).unwrap_or(plan.limits.exported);
    if u64::from(config.mhatl.leaves) < exported {
        return Effect::Full;
    }
    let leaves = config.mhatl.leaves;
    Effect::Limited(format!(
        "runs are never merged, because the volume has only {exported} sectors for {leaves} leaves"
    ))
}

fn vary(config: &mut LayerConfig, dice: &mut dyn Chance) {
    config.mhatl.leaves = dice.pick(&[16, 64, 256, 1024, 65_536]);
    config.shatl.far = dice.chance(200);
    config.mhatl.gather = dice.pick(&[Gather::Lsp, Gather::Lsp, Gather::Vsp]);
}

/// Registration of `mhatl`.
pub(crate) const REGISTRATION: Registration = Registration {
    kind: LayerKind::Mhatl,
    name: "mhatl",
    about: About {
        does: "collects small writes into superpages; maps runs of sectors",
        pays: "as hard, for writes in runs that stay together and little memory; not for a \
               workload that touches more runs than leaves",
        limits: "256 TiB and less than 2^31 leaves; a start uses 4 bytes of memory per mapped \
                 sector, 5 from 2 TiB on",
    },
    format: 2,
    devices: Devices::Block,
    parameters: PARAMETERS,
    effect,
    defaults: |_| {},
    reads_metadata: false,
    promises: Promises::USUAL,
    plan: Mhatl::plan,
    new: |config, devices, buffers, mode| Ok(Box::new(Mhatl::new(config, devices, buffers, mode)?)),
    chaos: Chaos { vary, ..Chaos::USUAL },
};
