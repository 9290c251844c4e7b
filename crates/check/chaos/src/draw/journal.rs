//! Journal device of a log.

use hostftl_core::{DeviceInfo, Nanos};
use hostftl_layers::LayerKind;

use super::swarm::{Faults, Swarm};
use crate::dice::Dice;
use crate::matrix::{Claims, Row};

/// Journal device.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    /// Properties of the device.
    pub info: DeviceInfo,
    /// Changed options, if faults happen only to this device.
    pub mortal: Option<Mortal>,
    /// Frequency of flushes, if it differs from that without a journal.
    pub flushes: Option<u32>,
}

/// Options of a journal device that alone has faults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mortal {
    /// Claims of the layer in this case.
    pub claims: Claims,
    /// Possible faults.
    pub faults: Faults,
    /// Deadline of commands in ns.
    pub deadline: Nanos,
}

/// Draws whether the log of a seed has a journal, the properties of its device, and whether only
/// that device has faults.
pub(super) fn draw(seed: u64, layer: LayerKind, swarm: &Swarm) -> Result<Option<Journal>, String> {
    let mut dice = Dice::new(!seed, layer as u64);
    if !dice.chance(layer.registration().chaos.journal) {
        return Ok(None);
    }
    let is_mortal = swarm.parity == 0 && dice.chance(950);
    let mortal =
        if is_mortal { Some(mortal(&mut dice, Claims::for_journal(layer)?)) } else { None };
    let flushes = dice.chance(600).then(|| dice.pick(&[5, 20, 60]));
    let unit = dice.pick(&[1, 8, 8, 16]);
    let slots = dice.pick(&[4, 5, 6, 8, 12, 30, 80, 80]);
    let slot = u64::from((32 + swarm.superpage).next_multiple_of(unit));
    let mut info = DeviceInfo::block(slots * slot + dice.below(slot), unit);
    info.volatile_cache = swarm.volatile;
    Ok(Some(Journal { info, mortal, flushes }))
}

fn mortal(dice: &mut Dice, claims: Claims) -> Mortal {
    let mut faults = Faults::draw(dice, &claims);
    faults.stale |= claims.admits(Row::StaleDevice) && dice.chance(400);
    Mortal { claims, faults, deadline: if faults.hang { 1 << 40 } else { 0 } }
}
