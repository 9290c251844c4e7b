//! Registration of the test layer `targets`: two or three of `pblk` and `rrpc` side by side on one
//! device. It is not a layer for volumes; volumes that share a device use parts of it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use hostftl_core::{DeviceInfo, DeviceKind, Payload, Token};

use crate::about::About;
use crate::any::AnyLayer;
use crate::chaos::{Chaos, Strips};
use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::effect;
use crate::kind::LayerKind;
use crate::promises::Promises;
use crate::registration::{Devices, Registered, Registration};

use super::{SHIFT, Targets, View, together};

/// Open segments that a target needs in each of its units: one for the host's data, one for its
/// map.
const OPEN: u32 = 2;

impl Registered for Targets {}

/// A target that is not created yet.
struct Planned {
    config: LayerConfig,
    info: DeviceInfo,
    view: View,
    plan: Plan,
}

/// Returns the number of targets: two or three, depending on the volume's UUID, if the device has
/// room for them.
fn count(config: &LayerConfig, device: &DeviceInfo) -> Result<u32, PlanError> {
    let DeviceKind::Zoned(all) = device.kind else {
        return Err(PlanError("targets need a zoned device"));
    };
    let wanted = 2 + u32::from(config.uuid[0] & 1);
    let shares = if all.max_open == 0 { wanted } else { all.max_open / OPEN };
    Ok(match all.units {
        1 => wanted.min(shares).max(1),
        units => wanted.min(units),
    })
}

/// Returns the targets, which depend on the volume's UUID and the device. Each has the same number
/// of whole units, or of segments of the only unit.
fn planned(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Vec<Planned>, PlanError> {
    let [device] = devices else { return Err(PlanError("targets need one zoned device")) };
    let count = count(config, device)?;
    let one = |index: u32| {
        let kind =
            if config.uuid[0] >> (1 + index) & 1 == 0 { LayerKind::Pblk } else { LayerKind::Rrpc };
        let mut config = LayerConfig { kind, ..config.clone() };
        // Separate UUIDs prevent a target from accepting its neighbour's pages.
        config.uuid[15] = index as u8 + 1;
        let view = View::share(device, index, count)?;
        let info = view.info(device);
        let plan = AnyLayer::plan(&config, core::slice::from_ref(&info))?;
        Ok(Planned { config, info, view, plan })
    };
    (0..count).map(one).collect()
}

fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
    let all = planned(config, devices)?;
    let plans = all.iter().map(|one| one.plan);
    let sum = plans.reduce(|one, other| Plan {
        limits: together(one.limits, other.limits),
        buffers: one.buffers + other.buffers,
        buffer_sectors: one.buffer_sectors,
        map_bytes: one.map_bytes + other.map_bytes,
        meta_bytes: one.meta_bytes + other.meta_bytes,
    });
    let sum = sum.expect("the target exists");
    if all.iter().all(|one| one.plan.buffer_sectors == sum.buffer_sectors) {
        Ok(sum)
    } else {
        Err(PlanError("the targets need buffers of different lengths"))
    }
}

fn new(
    config: &LayerConfig,
    devices: &[DeviceInfo],
    buffers: Vec<Payload>,
    mode: Mode,
) -> Result<Box<dyn Registered>, PlanError> {
    let mut buffers = buffers.into_iter();
    let made = |one: Planned| {
        let own = buffers.by_ref().take(one.plan.buffers as usize).collect();
        let layer = AnyLayer::new(&one.config, &[one.info], own, mode);
        (layer.expect("the target was planned"), one.view)
    };
    let layers = planned(config, devices)?.into_iter().map(made).collect();
    Ok(Box::new(Targets::new(layers)?))
}

/// The ranges of one target, for checkers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its range of the exported sectors.
    pub exported: Range<u64>,
    /// Its range of the device's sectors.
    pub device: Range<u64>,
}

/// Returns the ranges of each target, or nothing if `config` is of another layer.
///
/// # Errors
/// As [`AnyLayer::plan`].
pub fn places(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Vec<Place>, PlanError> {
    if config.kind != LayerKind::Targets {
        return Ok(Vec::new());
    }
    let mut first = 0;
    let place = |one: Planned| {
        let from = first;
        first += one.plan.limits.exported;
        let base = one.view.base();
        Place { exported: from..first, device: base..base + one.info.sectors }
    };
    Ok(planned(config, devices)?.into_iter().map(place).collect())
}

/// Returns the target that submitted a command.
pub fn sender(token: Token) -> usize {
    (token.0 >> SHIFT) as usize
}

/// Registration of the test layer `targets`.
pub const REGISTRATION: Registration = Registration {
    kind: LayerKind::Targets,
    name: "targets",
    about: About {
        does: "two or three targets (pblk, rrpc) on one device; for tests only",
        pays: "for tests only",
        limits: "one zoned device",
    },
    format: 1,
    devices: Devices::Zoned,
    parameters: &[],
    effect: effect::full,
    defaults: |config| config.spare_permille = 110,
    reads_metadata: true,
    promises: Promises::USUAL,
    plan,
    new,
    chaos: Chaos {
        megabytes: &[1, 1, 2],
        superpages: &[16, 16, 32],
        segments: Some(Strips { counts: &[4, 4, 8], least: 21, units: 2, ..Strips::USUAL }),
        large: None,
        events: "g",
        weight: 1,
        ..Chaos::USUAL
    },
};
