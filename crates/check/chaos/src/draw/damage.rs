//! Damage of the media, and writes that go elsewhere.

use super::swarm::{Faults, Swarm};
use crate::dice::Dice;
use crate::disk::Disk;
use crate::exec::Detour;

/// A bit that rots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rot {
    /// The sector.
    pub sector: u64,
    /// The bit of the sector.
    pub bit: u64,
}

/// Draws a sector of a device that can't be read from now on.
pub(crate) fn spoiled(dice: &mut Dice, faults: &Faults, disk: &Disk) -> Option<u64> {
    (faults.read_error && dice.chance(150)).then(|| dice.below(disk.sectors()))
}

/// Draws a bit that rots in a sector that `find` finds, if there is one.
pub(crate) fn rot(dice: &mut Dice, find: impl FnOnce() -> Option<u64>) -> Option<Rot> {
    let sector = dice.chance(150).then(find)??;
    Some(Rot { sector, bit: dice.below(4096) })
}

/// Draws whether a device is an old state of itself.
pub(crate) fn is_stale(dice: &mut Dice, faults: &Faults) -> bool {
    faults.stale && dice.chance(100)
}

/// Draws where a write of `sectors` sectors to a device of `size` really goes. Those to a `fresh`
/// device arrive, and those to zones are not misdirected (`size` is `None` then).
pub(crate) fn detour(
    dice: &mut Dice,
    swarm: &Swarm,
    sectors: u64,
    size: Option<u64>,
    is_fresh: bool,
) -> Detour {
    let often = if swarm.busy { 6 } else { 2 };
    if swarm.faults.lost && dice.chance(often) && !is_fresh {
        return Detour::Lost;
    }
    match size.filter(|_| swarm.faults.misdirected && dice.chance(often) && !is_fresh) {
        Some(size) => Detour::To(dice.below(size - sectors + 1)),
        None => Detour::None,
    }
}
