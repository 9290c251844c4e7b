//! Devices that come and leave.

use hostftl_core::DeviceInfo;
use hostftl_layers::LayerKind;

use super::swarm::Swarm;
use super::uneven;
use crate::dice::Dice;

/// Keeps this stream of chance apart from the seed's others.
const SALT: u64 = 0x6368_616e_6765;
/// The same for devices that are replaced while a volume is served.
const LIVE: u64 = 0x6c69_7665_6e65_7773;
/// A stack does not become wider than this.
const WIDEST: u32 = 6;
/// The longest device, in sectors, of a stack that gets more of them: each sector takes memory.
pub(crate) const LARGEST: u64 = 1 << 15;

/// Draws whether devices of a seed come and leave between two lives, and whether they do while the
/// volume is served.
pub(crate) fn draw(seed: u64, layer: LayerKind) -> (bool, bool) {
    let can = layer.registration().promises.changes();
    let some = |salt, permille| can && Dice::new(seed, salt).chance(permille);
    (some(SALT, 500), some(LIVE, 300))
}

/// A device that comes to a stack.
#[derive(Clone, Debug)]
pub(crate) struct Newcomer {
    /// The device.
    pub info: DeviceInfo,
    /// Whether it is a spare.
    pub is_spare: bool,
}

/// Draws a device that comes to a stack of `count` devices like `first`; `None` if the stack is
/// wide enough. Only a stack with parity has spares, and the segments of zoned devices are alike.
pub(crate) fn newcomer(
    dice: &mut Dice,
    swarm: &Swarm,
    (first, count): (&DeviceInfo, u32),
    has_parity: bool,
    is_zoned: bool,
) -> Option<Newcomer> {
    let mut info = first.clone();
    if swarm.uneven && !is_zoned {
        uneven::lengthen(dice, core::slice::from_mut(&mut info));
    }
    if count >= WIDEST || info.sectors > LARGEST {
        return None;
    }
    let is_spare = has_parity && dice.chance(if swarm.spares { 800 } else { 400 });
    Some(Newcomer { info, is_spare })
}
