//! Addition and removal of devices.

use hostftl_core::DeviceInfo;
use hostftl_layers::LayerKind;

use super::mixed_sizes;
use super::swarm::Swarm;
use crate::dice::Dice;

/// Separates this random stream from the others of the seed.
const SALT: u64 = 0x6368_616e_6765;
/// Separates the stream for devices that are replaced while a volume is served.
const ONLINE: u64 = 0x6c69_7665_6e65_7773;
/// Maximum number of devices of a stack.
const WIDEST: u32 = 6;
/// Maximum length in sectors of the devices of a growing stack; it limits memory.
pub(crate) const LARGEST: u64 = 1 << 15;

/// Draws whether a seed adds and removes devices between two lives, and whether it does so while
/// the volume is served.
pub(crate) fn draw(seed: u64, layer: LayerKind) -> (bool, bool) {
    let can = layer.registration().promises.changes();
    let some = |salt, permille| can && Dice::new(seed, salt).chance(permille);
    (some(SALT, 500), some(ONLINE, 300))
}

/// Device that is added to a stack.
#[derive(Clone, Debug)]
pub(crate) struct AddedDevice {
    /// Properties of the device.
    pub info: DeviceInfo,
    /// Whether the device is a spare.
    pub is_spare: bool,
}

/// Draws a device for a stack of `count` devices like `first`; `None` if the stack is wide enough.
/// Only stacks with parity have spares, and zoned devices have equal segments.
pub(crate) fn added_device(
    dice: &mut Dice,
    swarm: &Swarm,
    (first, count): (&DeviceInfo, u32),
    has_parity: bool,
    is_zoned: bool,
) -> Option<AddedDevice> {
    let mut info = first.clone();
    if swarm.mixed_sizes && !is_zoned {
        mixed_sizes::lengthen(dice, core::slice::from_mut(&mut info));
    }
    if count >= WIDEST || info.sectors > LARGEST {
        return None;
    }
    let is_spare = has_parity && dice.chance(if swarm.spares { 800 } else { 400 });
    Some(AddedDevice { info, is_spare })
}
