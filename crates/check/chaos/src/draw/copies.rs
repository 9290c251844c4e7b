//! Older copies of devices.

use hostftl_layers::LayerKind;

use super::swarm::Swarm;
use crate::dice::Dice;
use crate::matrix::{Claim, Claims, Row};

/// State of the latest copy.
///
/// The layer must detect a copy that was made before the start of a life that became ready since.
/// It must also detect a copy of a journal's device that misses a record that was durable before
/// the start of a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// There is no copy.
    Not,
    /// The copy misses nothing that a layer must detect.
    Early,
    /// The copy misses a durable record; the number counts the roots since then.
    Lacking(u32),
    /// The copy may replace the device.
    Known,
    /// The copy is in the place of the device.
    Here,
}

impl Copied {
    /// Counts a durable root. The second one was started after the first, so it was started after
    /// the record was durable.
    pub fn root_done(&mut self) {
        *self = match *self {
            Copied::Lacking(0) => Copied::Lacking(1),
            Copied::Lacking(_) => Copied::Known,
            other => other,
        }
    }

    /// Records that a life became ready.
    pub fn life_begun(&mut self) {
        if matches!(self, Copied::Early | Copied::Lacking(_)) {
            *self = Copied::Known;
        }
    }
}

/// Draws whether devices of a seed become stale, and which one is replaced by an older copy if that
/// may be one without parity. A single device cannot detect it.
pub(crate) fn draw(
    seed: u64,
    claims: &Claims,
    layer: LayerKind,
    swarm: &Swarm,
) -> (bool, Option<u8>) {
    let stale = swarm.faults.stale;
    let of_journal = swarm.mortal.is_some() && swarm.mortal == swarm.journal;
    if of_journal || claims.get(Row::StaleDevice) != Claim::Detected {
        return (stale, None);
    }
    let mut dice = Dice::new(!seed, u64::MAX - layer as u64);
    let stale = swarm.devices > 1 && (stale || dice.chance(200));
    (stale, stale.then(|| dice.below(swarm.devices.into()) as u8))
}

/// Action on a copy between two lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// No action.
    None,
    /// The copy replaces its device.
    Bring,
    /// A copy is made.
    Make,
    /// The copy is discarded.
    Forget,
}

/// Draws the action on a copy between two lives. With `is_noticed` the copy differs from its
/// device, and the layer must detect that.
pub(crate) fn exchange(dice: &mut Dice, copied: Copied, is_noticed: bool) -> Exchange {
    match copied {
        Copied::Known if is_noticed && dice.chance(400) => Exchange::Bring,
        Copied::Here => Exchange::None,
        Copied::Not => Exchange::Make,
        _ if dice.chance(300) => Exchange::Forget,
        _ => Exchange::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_detectable_older_copies_are_drawn() {
        let mut dice = Dice::new(1, 1);
        for copied in [Copied::Not, Copied::Early, Copied::Lacking(0), Copied::Known, Copied::Here]
        {
            for is_noticed in [false, true] {
                let comes =
                    (0..100).any(|_| exchange(&mut dice, copied, is_noticed) == Exchange::Bring);
                assert_eq!(comes, copied == Copied::Known && is_noticed, "{copied:?}");
            }
        }
    }

    #[test]
    fn a_copy_is_detectable_from_the_second_root_or_the_next_life() {
        let mut copied = Copied::Lacking(0);
        copied.root_done();
        assert_eq!(copied, Copied::Lacking(1));
        copied.root_done();
        assert_eq!(copied, Copied::Known);
        let mut copied = Copied::Early;
        copied.root_done();
        assert_eq!(copied, Copied::Early);
        copied.life_begun();
        assert_eq!(copied, Copied::Known);
    }
}
