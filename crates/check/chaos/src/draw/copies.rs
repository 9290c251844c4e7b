//! Older copies of devices.

use hostftl_layers::LayerKind;

use super::swarm::Swarm;
use crate::dice::Dice;
use crate::matrix::{Claim, Claims, Row};

/// The state of the copy that was made last.
///
/// It lacks something that a layer must miss when it was made before the start of a life that was
/// ready since, or, of a journal's device, lacks a record that was durable before a root was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// There is none.
    Not,
    /// It lacks nothing that a layer must miss.
    Early,
    /// It lacks a record that is durable, since when so many roots were.
    Lacking(u32),
    /// It may come in the place of the device.
    Known,
    /// It is in the place of the device.
    Here,
}

impl Copied {
    /// A root is durable: the second one was begun after the first.
    pub fn root_done(&mut self) {
        *self = match *self {
            Copied::Lacking(0) => Copied::Lacking(1),
            Copied::Lacking(_) => Copied::Known,
            other => other,
        }
    }

    /// A life is ready.
    pub fn life_begun(&mut self) {
        if matches!(self, Copied::Early | Copied::Lacking(_)) {
            *self = Copied::Known;
        }
    }
}

/// Draws whether devices of a seed are stale, and which of them then comes back as an older copy,
/// if that may be one without parity. One device alone can't tell.
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

/// What happens to a copy between two lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// Nothing.
    None,
    /// It comes in the place of its device.
    Bring,
    /// It is made.
    Make,
    /// It is forgotten.
    Forget,
}

/// Draws what happens to a copy between two lives. With `is_noticed` it differs from its device,
/// and a layer must notice that.
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
    fn only_a_known_copy_that_is_noticed_comes() {
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
    fn a_copy_is_known_from_the_second_root_or_the_next_life_on() {
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
