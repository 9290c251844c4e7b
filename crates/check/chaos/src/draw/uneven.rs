//! Devices of different lengths, where the layer says that devices may differ.

use hostftl_core::DeviceInfo;
use hostftl_layers::LayerKind;

use crate::dice::Dice;

/// Keeps this stream of chance apart from the seed's others.
const SALT: u64 = 0x756e_6576_656e_0032;
/// How many stacks are uneven, in thousandths.
const UNEVEN: u32 = 300;
/// How long devices are, in eighths of the shortest.
const EIGHTHS: [u64; 6] = [8, 8, 9, 12, 16, 24];

/// Draws whether the devices of a seed differ in length.
pub(super) fn draw(seed: u64, layer: LayerKind, devices: u32) -> bool {
    let may = layer.registration().promises.changes() && devices > 1;
    may && Dice::new(seed, SALT).chance(UNEVEN)
}

/// Makes some devices longer; the dice are those of the seed.
pub(super) fn lengthen(dice: &mut Dice, infos: &mut [DeviceInfo]) {
    for info in infos {
        info.sectors = info.sectors * dice.pick(&EIGHTHS) / 8;
    }
}

/// Returns the dice with which the devices of a seed are made longer.
pub(super) fn dice(seed: u64) -> Dice {
    Dice::new(seed.rotate_left(16), SALT)
}
