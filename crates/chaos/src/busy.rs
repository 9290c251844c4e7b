//! Stacks to which everything happens: faults of all kinds, and devices that come and leave, so
//! that each pair of them meets on one stack.

use hostftl_layers::LayerKind;

use crate::changes::LARGEST;
use crate::dice::Dice;
use crate::matrix::{Claims, Row};
use crate::swarm::Swarm;

/// Sets the choices of a seed here apart from all others.
const SALT: u64 = 0x6275_7379_2032;
/// How many stacks with one parity are busy, and with two, in thousandths.
const BUSY: [u32; 2] = [400, 900];

/// Makes a stack busy, perhaps. Which faults a stack may have follows from what the layer claims.
pub fn choose(seed: u64, layer: LayerKind, claims: &Claims, swarm: &mut Swarm) {
    let changes = layer.registration().promises.changes() && swarm.journal.is_none();
    let mut dice = Dice::new(seed, SALT);
    let parity = usize::from(swarm.parity).checked_sub(1);
    if !changes || !parity.is_some_and(|parity| dice.chance(BUSY[parity])) {
        return;
    }
    let faults = &mut swarm.faults;
    faults.cut = true;
    faults.dead = claims.admits(Row::DeadDevice);
    faults.stale = claims.admits(Row::StaleDevice);
    faults.log_rot = claims.admits(Row::LogRot) && dice.chance(500);
    faults.metadata_rot = claims.admits(Row::MetadataRot) && !faults.log_rot;
    faults.lost = claims.admits(Row::LostWrite);
    faults.misdirected = claims.admits(Row::MisdirectedWrite);
    (swarm.busy, swarm.changes, swarm.live_changes) = (true, true, true);
    // Larger ones get no more devices.
    swarm.sectors = swarm.sectors.min(LARGEST);
    // A scrub goes through to its end between two cuts.
    swarm.verbs = 20;
    (swarm.cut_every, swarm.life) =
        (swarm.cut_every.max(dice.pick(&[100, 1000])), swarm.life.max(100));
}
