//! Registration of `scrambler`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};

use crate::about::About;
use crate::chaos::{Chance, Chaos};
use crate::config::LayerConfig;
use crate::effect::{self, Effect, Usage};
use crate::kind::LayerKind;
use crate::parameter::{Parameter, SPARE, sectors};
use crate::promises::Promises;
use crate::registration::{Devices, Registered, Registration};

use super::Scrambler;
use super::params::BY_REQUESTS;

impl Registered for Scrambler {
    fn rules(&self) -> [u64; 3] {
        Scrambler::rules(self)
    }
}

/// Parses a share into thousandths.
fn share(word: &str) -> Result<u32, &'static str> {
    let share = word.parse().ok().filter(|share: &f64| (0.0..=1.0).contains(share));
    share.map(|share| (share * 1000.0 + 0.5) as u32).ok_or("a fraction from 0 to 1")
}

fn share_text(permille: u32) -> String {
    format!("{}.{:03}", permille / 1000, permille % 1000)
}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        key: "slot",
        value: "512..|page|auto",
        about: "unit of the map: a part of a page of the device, at most 64k; page: a whole page; \
                auto: at most 4k, chosen so that few of the first requests are unaligned",
        set: |config, word| {
            config.scrambler.slot = match word {
                "page" => 0,
                "auto" => BY_REQUESTS,
                _ => {
                    let fits = sectors(word).filter(|sectors| (1..=128).contains(sectors));
                    fits.ok_or("a size from 512 to 64k, page or auto")? as u32
                }
            };
            Ok(())
        },
        get: |config| {
            Some(match config.scrambler.slot {
                0 => String::from("page"),
                BY_REQUESTS => String::from("auto"),
                sectors if sectors % 2 == 0 => format!("{}k", sectors / 2),
                sectors => format!("{}", sectors * 512),
            })
        },
    },
    Parameter {
        key: "util",
        value: "SHARE",
        about: "fill limit of a page, as a fraction of its slots, while other pages have space",
        set: |config, word| share(word).map(|it| config.scrambler.util_permille = it),
        get: |config| Some(share_text(config.scrambler.util_permille)),
    },
    Parameter {
        key: "sufficient",
        value: "SHARE",
        about: "threshold of rule 1 (empty pages first), as a fraction of all pages that must be \
                empty; 0: while any page is empty",
        set: |config, word| share(word).map(|it| config.scrambler.sufficient_permille = it),
        get: |config| Some(share_text(config.scrambler.sufficient_permille)),
    },
    Parameter {
        key: "enough",
        value: "SHARE",
        about: "threshold of rule 2 (pages of the device's next GC victim first), as a fraction of \
                their slots that must be unused; 0: while a page has a free slot",
        set: |config, word| share(word).map(|it| config.scrambler.enough_permille = it),
        get: |config| Some(share_text(config.scrambler.enough_permille)),
    },
    Parameter {
        key: "refresh",
        value: "N",
        about: "pages written between two requests for the next GC victim of the device; 0: no \
                requests",
        set: |config, word| {
            config.scrambler.refresh =
                word.parse().map_err(|_| "a number of page writes; 0: never")?;
            Ok(())
        },
        get: |config| Some(config.scrambler.refresh.to_string()),
    },
    SPARE,
];

fn effect(config: &LayerConfig, key: &str, usage: &Usage) -> Effect {
    match key {
        "util" => util(config, usage),
        "enough" => enough(config),
        _ => effect::only_spare(config, key, usage),
    }
}

/// The effect of the fill limit, which is a whole number of slots and at least one.
fn util(config: &LayerConfig, usage: &Usage) -> Effect {
    let page = usage.devices.first().map_or(1, |device| device.iu_sectors);
    let slots = match config.scrambler.slot {
        0 => 1,
        slot => page / slot.clamp(1, page),
    };
    match slots * config.scrambler.util_permille / 1000 {
        0 if slots == 1 => Effect::Limited("no effect, because a page has only one slot".into()),
        0 => Effect::Limited("raised to one slot of each page".into()),
        _ => Effect::Full,
    }
}

/// The effect of the threshold of rule 2, which needs requests for the victim.
fn enough(config: &LayerConfig) -> Effect {
    match config.scrambler.refresh {
        0 => Effect::Never("with refresh=0 the device is never asked for its victim; omit one"),
        _ => Effect::Full,
    }
}

fn vary(config: &mut LayerConfig, dice: &mut dyn Chance) {
    let slot = dice.pick(&[1, 4, 8, 8, 8, 0]);
    // A page has at most 64 slots.
    config.scrambler.slot = if slot * 64 < config.superpage { 0 } else { slot };
    config.scrambler.refresh = dice.pick(&[0, 1, 8, 32]);
    config.scrambler.util_permille = dice.pick(&[500, 1000, 1000]);
}

/// Registration of `scrambler`.
pub(crate) const REGISTRATION: Registration = Registration {
    kind: LayerKind::Scrambler,
    name: "scrambler",
    about: About {
        does: "writes to the pages that the device collects next, which empties its victims",
        pays: "small random writes on a nearly full drive that reports its next GC victim (drive \
               models with hint=true); no gain if writes are whole pages",
        limits: "pages of 4k to 1m; less than 2^32 slots (16 TiB with slots of 4k, 64 TiB with \
                 16k)",
    },
    format: 1,
    devices: Devices::Hinting,
    parameters: PARAMETERS,
    effect,
    defaults: |_| {},
    reads_metadata: false,
    promises: Promises::USUAL,
    plan: Scrambler::plan,
    new: |config, devices, buffers, mode| {
        Ok(Box::new(Scrambler::new(config, devices, buffers, mode)?))
    },
    chaos: Chaos { vary, ..Chaos::USUAL },
};
