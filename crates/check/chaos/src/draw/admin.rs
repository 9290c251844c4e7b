//! Requests of an operator.

use hostftl_core::{AdminCommand, Scrub, Setting};
use hostftl_layers::LayerKind;

use crate::dice::Dice;

/// Separates this random stream from the others of the seed, so that seeds of layers without
/// operator commands are unchanged.
const SALT: u64 = 0x776f_7264_7320_6f66;

/// Draws the frequency of operator requests of a seed, in thousandths of all choices; 0 is never.
pub(crate) fn rate(seed: u64, layer: LayerKind) -> u32 {
    let mut dice = Dice::new(seed.rotate_left(24) ^ SALT, layer as u64);
    if dice.chance(layer.registration().chaos.admin_commands) {
        dice.pick(&[1, 1, 5, 20])
    } else {
        0
    }
}

/// Draws a request. With `keeps_scrubbing` a scrub is rarely stopped.
pub(crate) fn draw(dice: &mut Dice, keeps_scrubbing: bool) -> AdminCommand {
    match dice.below(10) {
        0..5 => AdminCommand::Scrub(Scrub::Start(dice.pick(&[0, 0, 0, 0, 2]))),
        5 => AdminCommand::Scrub(Scrub::Pause),
        6 => AdminCommand::Scrub(Scrub::Resume),
        7 => AdminCommand::Set(Setting::RebuildShare(dice.between(1, 100) as u8)),
        // The newest policy takes the last value of each sixteen, so that nearly every seed keeps
        // the policy that it had without it.
        8 => AdminCommand::Set(Setting::Gc(match dice.below(64) as u16 {
            side if side % 16 == 15 => 4,
            side => side / 16,
        })),
        _ if keeps_scrubbing && dice.chance(900) => AdminCommand::Scrub(Scrub::Resume),
        _ => AdminCommand::Scrub(Scrub::Stop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_request_is_drawn() {
        let mut dice = Dice::new(1, 1);
        let drawn: Vec<AdminCommand> = (0..10_000).map(|_| draw(&mut dice, false)).collect();
        for kind in [
            AdminCommand::Scrub(Scrub::Start(0)),
            AdminCommand::Scrub(Scrub::Pause),
            AdminCommand::Scrub(Scrub::Resume),
            AdminCommand::Scrub(Scrub::Stop),
            AdminCommand::Set(Setting::Gc(4)),
            AdminCommand::Set(Setting::RebuildShare(100)),
        ] {
            assert!(drawn.contains(&kind), "{kind:?}");
        }
    }

    #[test]
    fn persistent_scrubs_are_rarely_stopped() {
        let stops = |keeps| {
            let mut dice = Dice::new(1, 1);
            let admin_commands = (0..1000).map(|_| draw(&mut dice, keeps));
            admin_commands.filter(|command| *command == AdminCommand::Scrub(Scrub::Stop)).count()
        };
        assert!(5 * stops(true) < stops(false));
    }
}
