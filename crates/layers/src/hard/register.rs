//! What `hard` tells of itself.

use alloc::boxed::Box;

use crate::chaos::Chaos;
use crate::kind::LayerKind;
use crate::parameter::{Parameter, SPARE, SUPERPAGE};
use crate::registration::{Devices, Promises, Registered, Registration};

use super::Hard;

impl Registered for Hard {}

const SUPERPAGE_OF_HARD: Parameter =
    Parameter { about: "the unit in which small writes are gathered and written", ..SUPERPAGE };

/// See [`crate::registry`].
pub const REGISTRATION: Registration = Registration {
    kind: LayerKind::Hard,
    name: "hard",
    about: "small writes are gathered into superpages; every sector is mapped",
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
