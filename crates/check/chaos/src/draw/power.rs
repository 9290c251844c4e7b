//! Power cuts.

use crate::dice::Dice;
use crate::disk::Survival;

/// End of a life that is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    /// The process is killed: devices keep their caches.
    Kill,
    /// The power fails, and this part of the caches survives.
    Power(Survival),
}

/// Draws the kind of cut.
pub(crate) fn draw(dice: &mut Dice) -> Cut {
    if dice.chance(100) {
        return Cut::Kill;
    }
    Cut::Power(match dice.below(8) {
        0 => Survival::Nothing,
        1 => Survival::Everything,
        2 => Survival::Newest,
        3 => Survival::Oldest,
        4 => Survival::Each(100),
        5 => Survival::Each(900),
        _ => Survival::Each(500),
    })
}
