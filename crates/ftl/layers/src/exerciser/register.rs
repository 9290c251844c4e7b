//! Registration of the test layer `exerciser`.

use alloc::boxed::Box;

use crate::about::About;
use crate::chaos::Chaos;
use crate::effect;
use crate::kind::LayerKind;
use crate::promises::Promises;
use crate::registration::{Devices, Registered, Registration};

use super::Exerciser;

impl Registered for Exerciser {}

/// Registration of the test layer `exerciser`.
pub(crate) const REGISTRATION: Registration = Registration {
    kind: LayerKind::Exerciser,
    name: "exerciser",
    about: About {
        does: "a script that uses every command of the interface; for tests only",
        pays: "for tests only",
        limits: "up to four block devices",
    },
    format: 1,
    devices: Devices::Few,
    parameters: &[],
    effect: effect::full,
    defaults: |_| {},
    reads_metadata: false,
    promises: Promises::USUAL,
    plan: |_, devices| Exerciser::plan(devices),
    new: |_, devices, buffers, _| {
        Ok(Box::new(Exerciser::new(Exerciser::plan(devices)?, devices, buffers)))
    },
    chaos: Chaos {
        devices: &[1, 2, 3, 4],
        sectors: Some(512),
        large: None,
        events: "e",
        weight: 1,
        ..Chaos::USUAL
    },
};
