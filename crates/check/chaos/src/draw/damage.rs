//! Damage of the media, and misdirected or lost writes.

use super::swarm::{Faults, Swarm};
use crate::dice::Dice;
use crate::disk::Disk;
use crate::exec::Detour;

/// Bit that rots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rot {
    /// Number of the sector.
    pub sector: u64,
    /// Bit within the sector.
    pub bit: u64,
}

/// Draws a sector of a device that becomes unreadable.
pub(crate) fn spoiled(dice: &mut Dice, faults: &Faults, disk: &Disk) -> Option<u64> {
    (faults.read_error && dice.chance(150)).then(|| dice.below(disk.sectors()))
}

/// Draws a bit that rots in the sector returned by `find`, if any.
pub(crate) fn rot(dice: &mut Dice, find: impl FnOnce() -> Option<u64>) -> Option<Rot> {
    let sector = dice.chance(150).then(find)??;
    Some(Rot { sector, bit: dice.below(4096) })
}

/// Draws whether a device returns to an older state.
pub(crate) fn is_stale(dice: &mut Dice, faults: &Faults) -> bool {
    faults.stale && dice.chance(100)
}

/// Draws the actual destination of a write of `sectors` sectors to a device of `size` sectors.
/// Writes to a `fresh` device always arrive, and writes to zones are not misdirected (`size` is
/// then `None`).
pub(crate) fn detour(
    dice: &mut Dice,
    swarm: &Swarm,
    sectors: u64,
    size: Option<u64>,
    is_fresh: bool,
) -> Detour {
    let often = if swarm.is_stress { 6 } else { 2 };
    if swarm.faults.lost && dice.chance(often) && !is_fresh {
        return Detour::Lost;
    }
    match size.filter(|_| swarm.faults.misdirected && dice.chance(often) && !is_fresh) {
        Some(size) => Detour::To(dice.below(size - sectors + 1)),
        None => Detour::None,
    }
}
