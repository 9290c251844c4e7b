//! Registration of `hard`.

use alloc::boxed::Box;

use crate::about::About;
use crate::chaos::Chaos;
use crate::kind::LayerKind;
use crate::parameter::{Parameter, SPARE, SUPERPAGE};
use crate::registration::{Devices, Promises, Registered, Registration};

use super::Hard;

impl Registered for Hard {}

const SUPERPAGE_OF_HARD: Parameter = Parameter {
    value: "8k..=1m",
    about: "the unit in which small writes are gathered and written",
    ..SUPERPAGE
};

/// Registration of `hard`.
pub(crate) const REGISTRATION: Registration = Registration {
    kind: LayerKind::Hard,
    name: "hard",
    about: About {
        does: "small writes are gathered into superpages; every sector is mapped",
        pays: "small random writes on a drive that maps in 16 KiB and more and is not nearly full; \
               its map takes much memory, elsewhere take hatl-auto or log",
        limits: "less than 2 TiB, because sectors have numbers of 32 bits",
    },
    format: 1,
    devices: Devices::Block,
    parameters: &[SUPERPAGE_OF_HARD, SPARE],
    defaults: |_| {},
    reads_metadata: false,
    promises: Promises::USUAL,
    plan: Hard::plan,
    new: |config, devices, buffers, mode| Ok(Box::new(Hard::new(config, devices, buffers, mode)?)),
    chaos: Chaos { events: "h", ..Chaos::USUAL },
};
