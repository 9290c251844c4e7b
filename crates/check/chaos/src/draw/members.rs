//! Devices that are missing, return, or become the next victim.

use hostftl_core::DeviceSet;

use super::swarm::Swarm;
use crate::dice::Dice;

/// Draws a device of a set; `None` if the set is empty.
pub(crate) fn pick_one(dice: &mut Dice, set: DeviceSet) -> Option<u8> {
    let all: Vec<u8> = set.iter().collect();
    (!all.is_empty()).then(|| dice.pick(&all))
}

/// State of the victim at the start of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Presence {
    /// Whether it is missing.
    pub is_missing: bool,
    /// Whether it is present without the writes that it missed.
    pub is_stale: bool,
}

/// Draws whether the victim is missing from a life. `is_gone` means that it missed writes; it then
/// returns only if the layer claims to detect that by itself. With `is_secure` the layer can work
/// without it.
pub(crate) fn presence(
    dice: &mut Dice,
    swarm: &Swarm,
    was_stale: bool,
    is_secure: bool,
) -> Presence {
    let faults = swarm.faults;
    let is_stale = was_stale && faults.stale && dice.chance(300);
    let often = if swarm.is_stress && swarm.parity > 1 { 350 } else { 100 };
    let is_missing =
        was_stale && !is_stale || is_secure && faults.device_failure && dice.chance(often);
    Presence { is_missing, is_stale }
}

/// Replacement of a lost device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// The same device, with its content at the time of the loss.
    Same,
    /// Another, empty device.
    New,
}

/// Draws replacements of `lost` devices between two lives. Devices of `fresh` were already
/// replaced; only the victim returns itself.
pub(crate) fn replacements(
    dice: &mut Dice,
    lost: DeviceSet,
    fresh: DeviceSet,
    victim: u8,
) -> Vec<(u8, Replacement)> {
    let mut drawn = Vec::new();
    for device in lost - fresh {
        if device == victim && dice.chance(250) {
            drawn.push((device, Replacement::Same));
        } else if dice.chance(250) {
            drawn.push((device, Replacement::New));
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_drawn_from_its_set_only() {
        let mut dice = Dice::new(1, 1);
        assert_eq!(pick_one(&mut dice, DeviceSet::EMPTY), None);
        let set = DeviceSet::from_iter([1, 4, 7]);
        let drawn = (0..100).filter_map(|_| pick_one(&mut dice, set));
        assert_eq!(drawn.collect::<DeviceSet>(), set);
    }

    #[test]
    fn only_the_victim_returns_and_each_device_joins_once() {
        let mut dice = Dice::new(1, 1);
        let (lost, fresh) = (DeviceSet::from_iter([0, 1, 3]), DeviceSet::single(3));
        let drawn: Vec<_> =
            (0..200).flat_map(|_| replacements(&mut dice, lost, fresh, 1)).collect();
        assert!(drawn.iter().all(|(device, _)| [0, 1].contains(device)), "3 came before");
        let same = drawn.iter().filter(|(_, how)| *how == Replacement::Same);
        assert!(same.clone().count() > 0 && same.clone().all(|(device, _)| *device == 1));
    }
}
