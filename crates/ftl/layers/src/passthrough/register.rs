//! Registration of `passthrough`.

use alloc::boxed::Box;

use crate::about::About;
use crate::chaos::Chaos;
use crate::effect;
use crate::kind::LayerKind;
use crate::promises::Promises;
use crate::registration::{Devices, Registered, Registration};

use super::Passthrough;

impl Registered for Passthrough {}

/// Registration of `passthrough`.
pub(crate) const REGISTRATION: Registration = Registration {
    kind: LayerKind::Passthrough,
    name: "passthrough",
    about: About {
        does: "no translation: host commands go to the device unchanged",
        pays: "to serve a device unchanged, and as the baseline of comparisons; does not reduce \
               write amplification and has no checksums",
        limits: "one block device of any size",
    },
    format: 1,
    devices: Devices::Block,
    parameters: &[],
    effect: effect::full,
    defaults: |_| {},
    reads_metadata: false,
    promises: Promises { reads_unwritten: true, ..Promises::USUAL },
    plan: |_, devices| Passthrough::plan(devices),
    new: |config, devices, _, _| {
        Ok(Box::new(Passthrough::new(config, Passthrough::plan(devices)?)))
    },
    chaos: Chaos { events: "p", weight: 1, ..Chaos::USUAL },
};
