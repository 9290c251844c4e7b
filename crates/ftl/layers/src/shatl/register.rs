//! Registration of `shatl` and `hatl-auto`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use crate::about::About;
use crate::chaos::{Chance, Chaos, Large};
use crate::config::LayerConfig;
use crate::effect::{self, Bytes, Effect, Usage};
use crate::kind::LayerKind;
use crate::parameter::{self, Parameter, SUPERPAGE, sectors_text, short, size_text};
use crate::promises::Promises;
use crate::registration::{Devices, Registered, Registration};
use crate::vsp::layout::MAX_TRANSFER;

use super::params::Reclaim;
use super::{HatlAuto, Shatl};

impl Registered for Shatl {}
impl Registered for HatlAuto {}

const SUPERPAGE_OF_BOTH: Parameter = Parameter {
    value: "8k..=1m",
    about: "unit of writes to the hidden area and of its cleaning",
    ..SUPERPAGE
};

const HIDDEN: Parameter = Parameter {
    key: "hidden",
    value: "512k..",
    about: "size of the hidden area, which takes small writes first; from 64 superpages to a \
            quarter of the device",
    set: |config, word| {
        let sectors = parameter::sectors(word).ok_or("a size in whole sectors, such as 128m")?;
        config.shatl.hidden = sectors;
        Ok(())
    },
    get: |config| Some(sectors_text(config.shatl.hidden)),
};

const MODE: Parameter = Parameter {
    key: "mode",
    value: "shatl|ressd",
    about: "cleaning of the hidden area; shatl: the superpage with the fewest logical superpages \
            first; ressd: the whole area in address order",
    set: |config, word| {
        config.shatl.reclaim = match word {
            "shatl" => Reclaim::Fewest,
            "ressd" => Reclaim::Batch,
            _ => return Err("shatl or ressd"),
        };
        Ok(())
    },
    get: |config| {
        Some(String::from(match config.shatl.reclaim {
            Reclaim::Fewest => "shatl",
            Reclaim::Batch => "ressd",
        }))
    },
};

const THRESHOLD: Parameter = Parameter {
    key: "threshold",
    value: "512..",
    about: "shortest write that bypasses the hidden area; default: a superpage, or 32k with ressd",
    set: |config, word| {
        config.shatl.threshold = Some(short(word)?).filter(|sectors| *sectors > 0);
        Ok(())
    },
    get: |config| config.shatl.threshold.map(|sectors| sectors_text(sectors.into())),
};

const BUDGET: Parameter = Parameter {
    key: "budget",
    value: "64k..",
    about: "memory limit of the map and its tables; default: 4m per 32g of device, at least 4m",
    set: |config, word| {
        config.shatl.budget = Some(parameter::size(word).ok_or("a size such as 4m")?);
        Ok(())
    },
    get: |config| config.shatl.budget.map(size_text),
};

fn effect(config: &LayerConfig, key: &str, usage: &Usage) -> Effect {
    match key {
        "threshold" => threshold(config),
        "budget" => budget(config, usage),
        _ => Effect::Full,
    }
}

/// The effect of the threshold: no request is longer than the longest transfer.
fn threshold(config: &LayerConfig) -> Effect {
    match config.shatl.threshold {
        Some(sectors) if sectors > MAX_TRANSFER => Effect::Limited(
            "longer writes are split at 1 MiB, so no write bypasses the hidden area by its length"
                .into(),
        ),
        _ => Effect::Full,
    }
}

/// The effect of the budget: a small device has no use for a large one.
fn budget(config: &LayerConfig, usage: &Usage) -> Effect {
    let plan = effect::planned(config, usage, |_| ()).zip(config.shatl.budget);
    let used = plan.map(|(plan, budget)| (plan.map_bytes + plan.meta_bytes, budget));
    match used {
        Some((used, budget)) if used + used / 8 < budget => {
            Effect::Limited(format!("the layer uses at most {} on this device", Bytes(used)))
        }
        _ => Effect::Full,
    }
}

fn vary(config: &mut LayerConfig, dice: &mut dyn Chance) {
    config.shatl.far = dice.chance(200);
    if dice.chance(300) {
        config.shatl.reclaim = Reclaim::Batch;
        config.shatl.threshold = Some(dice.between(2, 40) as u32);
    }
}

/// Selects the mode `ressd` with its default threshold, overriding other draws.
fn batch(config: &mut LayerConfig) {
    (config.shatl.reclaim, config.shatl.threshold) = (Reclaim::Batch, None);
}

/// Registration of `shatl`.
pub(crate) const SHATL: Registration = Registration {
    kind: LayerKind::Shatl,
    name: "shatl",
    about: About {
        does: "maps every sector to a fixed home slot; small writes go to a hidden area first",
        pays: "the published system on which hatl-auto is based: small random writes in little \
               memory, on a drive with an indirection unit of 16 KiB or more",
        limits: "256 TiB, and a hidden area of less than 1 TiB",
    },
    format: 2,
    devices: Devices::Block,
    parameters: &[SUPERPAGE_OF_BOTH, HIDDEN, MODE, THRESHOLD],
    effect,
    defaults: |_| {},
    reads_metadata: false,
    promises: Promises { reads_unwritten: true, ..Promises::USUAL },
    plan: Shatl::plan,
    new: |config, devices, buffers, mode| Ok(Box::new(Shatl::new(config, devices, buffers, mode)?)),
    chaos: Chaos {
        large: Some(Large { also: (700, batch), ..Large::USUAL }),
        vary,
        ..Chaos::USUAL
    },
};

/// Registration of `hatl-auto`.
pub(crate) const HATL_AUTO: Registration = Registration {
    kind: LayerKind::HatlAuto,
    name: "hatl-auto",
    about: About {
        does: "as shatl, with the largest hidden area that a memory budget allows",
        pays: "small random writes in little memory, on a drive with an indirection unit of 16 \
               KiB or more; not on a drive with 4 KiB",
        limits: "256 TiB; from 1 TiB on the hidden area is a 64th of the device",
    },
    format: 4,
    parameters: &[SUPERPAGE_OF_BOTH, BUDGET],
    plan: HatlAuto::plan,
    new: |config, devices, buffers, mode| {
        Ok(Box::new(HatlAuto::new(config, devices, buffers, mode)?))
    },
    chaos: Chaos {
        vary: |config, dice| {
            config.shatl.far = dice.chance(200);
            let drawn = dice.pick(&[None, Some(28 << 10), Some(1 << 20)]);
            (config.shatl.budget, config.shatl.fewest_leaves) = (drawn, drawn.is_none());
        },
        has_small_units: true,
        ..Chaos::USUAL
    },
    ..SHATL
};
