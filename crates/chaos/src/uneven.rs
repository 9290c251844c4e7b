//! Devices of different lengths, where the layer says that devices may differ.

use hostftl_core::DeviceInfo;
use hostftl_layers::LayerKind;

use crate::dice::Dice;
use crate::swarm::Swarm;

/// Sets the choices of a seed here apart from all others.
const SALT: u64 = 0x756e_6576_656e_0032;
/// How many stacks are uneven, in thousandths.
const UNEVEN: u32 = 300;
/// How long devices are, in eighths of the shortest.
const EIGHTHS: [u64; 6] = [8, 8, 9, 12, 16, 24];

/// Chooses whether the devices of a seed differ in length.
pub fn choose(seed: u64, layer: LayerKind, swarm: &mut Swarm) {
    let may = layer.registration().promises.changes() && swarm.devices > 1;
    swarm.uneven = may && Dice::new(seed, SALT).chance(UNEVEN);
}

/// Makes some devices longer; the dice are those of the seed.
pub fn lengthen(infos: &mut [DeviceInfo], dice: &mut Dice) {
    for info in infos {
        info.sectors = info.sectors * dice.pick(&EIGHTHS) / 8;
    }
}

/// The dice with which the devices of a seed are made longer.
pub fn dice(seed: u64) -> Dice {
    Dice::new(seed.rotate_left(16), SALT)
}
