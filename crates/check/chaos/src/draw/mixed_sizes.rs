//! Devices of different lengths, if the layer supports them.

use hostftl_core::DeviceInfo;
use hostftl_layers::LayerKind;

use crate::dice::Dice;

/// Separates this random stream from the others of the seed.
const SALT: u64 = 0x756e_6576_656e_0032;
/// Permille of stacks with uneven devices.
const UNEVEN: u32 = 300;
/// Lengths of devices in eighths of the shortest.
const EIGHTHS: [u64; 6] = [8, 8, 9, 12, 16, 24];

/// Draws whether the devices of a seed differ in length.
pub(super) fn draw(seed: u64, layer: LayerKind, devices: u32) -> bool {
    let may = layer.registration().promises.changes() && devices > 1;
    may && Dice::new(seed, SALT).chance(UNEVEN)
}

/// Lengthens some devices, with the dice of the seed.
pub(super) fn lengthen(dice: &mut Dice, infos: &mut [DeviceInfo]) {
    for info in infos {
        info.sectors = info.sectors * dice.pick(&EIGHTHS) / 8;
    }
}

/// Returns the dice that lengthen the devices of a seed.
pub(super) fn dice(seed: u64) -> Dice {
    Dice::new(seed.rotate_left(16), SALT)
}
