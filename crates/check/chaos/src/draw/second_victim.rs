//! Choice of a second device with faults.

use hostftl_layers::LayerKind;

use super::swarm::Swarm;
use crate::dice::Dice;

/// Separates this random stream from the others of the seed.
const SALT: u64 = 0x7365_636f_6ef1;

/// Draws whether a stack with parity has two parities.
pub(super) fn with_two_parities(seed: u64, layer: LayerKind) -> bool {
    let (_, two) = layer.registration().chaos.parity;
    Dice::new(seed, SALT).chance(two)
}

/// Draws the device of a seed that has faults at the same time as the victim, if any.
pub(super) fn draw(seed: u64, swarm: &Swarm) -> Option<u8> {
    let mut dice = Dice::new(!seed, SALT);
    if swarm.parity < 2 || !dice.chance(800) {
        return None;
    }
    let others = (0..swarm.devices as u8).filter(|it| Some(*it) != swarm.victim);
    Some(dice.pick(&others.collect::<Vec<u8>>()))
}
