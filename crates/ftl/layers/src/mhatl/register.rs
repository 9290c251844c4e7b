//! Registration of `mhatl`.

use alloc::boxed::Box;
use alloc::string::{String, ToString};

use crate::about::About;
use crate::chaos::{Chance, Chaos};
use crate::config::LayerConfig;
use crate::kind::LayerKind;
use crate::parameter::{Parameter, SPARE, SUPERPAGE};
use crate::registration::{Devices, Promises, Registered, Registration};

use super::Mhatl;
use super::params::Gather;

impl Registered for Mhatl {}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        value: "8k..=1m",
        about: "the unit in which small writes are gathered and written",
        ..SUPERPAGE
    },
    SPARE,
    Parameter {
        key: "leaves",
        value: "1..=67108864",
        about: "how many runs of sectors the map wants to have at the most",
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
        about: "what is put together when there are too many runs: lsp, all of each logical \
                superpage that the victim holds part of; vsp, what the victim holds",
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

fn vary(config: &mut LayerConfig, dice: &mut dyn Chance) {
    config.mhatl.leaves = dice.pick(&[16, 64, 256, 1024, 65_536]);
    config.mhatl.gather = dice.pick(&[Gather::Lsp, Gather::Lsp, Gather::Vsp]);
}

/// Registration of `mhatl`.
pub(crate) const REGISTRATION: Registration = Registration {
    kind: LayerKind::Mhatl,
    name: "mhatl",
    about: About {
        does: "small writes are gathered into superpages; runs of sectors are mapped",
        pays: "as hard, where writes come in pieces that stay together and memory is short; not \
               where a workload touches more pieces than there are leaves",
        limits: "less than 2 TiB, because sectors have numbers of 32 bits; a start takes 4 bytes a \
                 sector for a while",
    },
    format: 1,
    devices: Devices::Block,
    parameters: PARAMETERS,
    defaults: |_| {},
    reads_metadata: false,
    promises: Promises::USUAL,
    plan: Mhatl::plan,
    new: |config, devices, buffers, mode| Ok(Box::new(Mhatl::new(config, devices, buffers, mode)?)),
    chaos: Chaos { vary, ..Chaos::USUAL },
};
