//! Registration of `hard`.

use alloc::boxed::Box;

use crate::about::About;
use crate::chaos::Chaos;
use crate::effect;
use crate::kind::LayerKind;
use crate::parameter::{Parameter, SPARE, SUPERPAGE};
use crate::promises::Promises;
use crate::registration::{Devices, Registered, Registration};

use super::Hard;

impl Registered for Hard {}

const SUPERPAGE_OF_HARD: Parameter = Parameter {
    value: "8k..=1m",
    about: "unit of writes, in which small writes are collected",
    ..SUPERPAGE
};

/// Registration of `hard`.
pub(crate) const REGISTRATION: Registration = Registration {
    kind: LayerKind::Hard,
    name: "hard",
    about: About {
        does: "collects small writes into superpages; maps every sector",
        pays: "small random writes on a drive with an indirection unit of 16 KiB or more that is \
               not nearly full; its map takes much memory, so otherwise use hatl-auto or log",
        limits: "256 TiB and less than 2^32 superpages; a map entry takes 5 bytes from 2 TiB on",
    },
    format: 2,
    devices: Devices::Block,
    parameters: &[SUPERPAGE_OF_HARD, SPARE],
    effect: effect::only_spare,
    defaults: |_| {},
    reads_metadata: false,
    promises: Promises::USUAL,
    plan: Hard::plan,
    new: |config, devices, buffers, mode| Ok(Box::new(Hard::new(config, devices, buffers, mode)?)),
    chaos: Chaos {
        events: "h",
        vary: |config, dice| config.shatl.far = dice.chance(200),
        ..Chaos::USUAL
    },
};
