//! Stacks with faults of all kinds and with member changes, so that each pair of them occurs on one
//! stack.

use hostftl_layers::LayerKind;

use super::changes::LARGEST;
use super::swarm::{Faults, Swarm};
use crate::dice::Dice;
use crate::matrix::{Claims, Row};

/// Separates this random stream from the others of the seed.
const SALT: u64 = 0x6275_7379_2032;
/// Permille of stress stacks, with one parity and with two.
const STRESS: [u32; 2] = [400, 900];
/// Permille of stress stacks among those that may lose only their journal.
const STRESS_WITH_JOURNAL: u32 = 950;
/// Permille of stress stacks that export more than fits, by their parities, and permille of those
/// that mostly add spares.
const THIN: [u32; 3] = [400, 450, 800];
const SPARES: u32 = 600;
/// Separates the draw of these stacks from that of the others.
const RARE: u64 = 0x7261_7265_2033;

/// Options of a stress stack.
#[derive(Clone, Copy, Debug)]
pub struct Stress {
    faults: Faults,
    spares: bool,
    thin: bool,
    sectors: u64,
    admin_commands: u32,
    cut_every: u64,
    life: u64,
}

/// Draws whether a seed has a stress stack. The possible faults follow from the claims.
pub(super) fn draw(seed: u64, claims: &Claims, layer: LayerKind, swarm: &Swarm) -> Option<Stress> {
    if !layer.registration().promises.changes() {
        return None;
    }
    let mut rare = Dice::new(seed, RARE);
    if swarm.journal.is_some() {
        let is_stress = swarm.mortal == swarm.journal && rare.chance(STRESS_WITH_JOURNAL);
        return is_stress.then(|| with_journal(&mut rare, claims, swarm));
    }
    let mut dice = Dice::new(seed, SALT);
    let parity = usize::from(swarm.parity).checked_sub(1);
    if !parity.is_some_and(|parity| dice.chance(STRESS[parity])) {
        return None;
    }
    let spares = rare.chance(SPARES);
    let thin = rare.chance(THIN[usize::from(swarm.parity)]);
    let mut faults = swarm.faults;
    faults.cut = true;
    faults.device_failure = claims.admits(Row::FailedDevice);
    faults.stale = claims.admits(Row::StaleDevice);
    faults.log_rot = claims.admits(Row::LogRot) && dice.chance(500);
    faults.metadata_rot = claims.admits(Row::MetadataRot) && !faults.log_rot;
    faults.lost = claims.admits(Row::LostWrite);
    faults.misdirected = claims.admits(Row::MisdirectedWrite);
    Some(Stress {
        faults,
        spares,
        thin,
        // Larger devices would rule out additional ones.
        sectors: swarm.sectors.min(LARGEST),
        // With rare cuts and requests, a scrub can complete.
        admin_commands: if swarm.parity > 1 { 120 } else { 30 },
        cut_every: swarm.cut_every.max(dice.pick(&[100, 1000])),
        life: swarm.life.max(100),
    })
}

/// Draws the options of a stack that may lose only its journal: devices are added and removed.
fn with_journal(dice: &mut Dice, claims: &Claims, swarm: &Swarm) -> Stress {
    let mut faults = swarm.faults;
    faults.cut = true;
    faults.device_failure |= claims.admits(Row::FailedDevice);
    faults.log_rot |= claims.admits(Row::LogRot) && dice.chance(500);
    faults.metadata_rot |= claims.admits(Row::MetadataRot) && !faults.log_rot;
    Stress {
        faults,
        spares: swarm.spares,
        thin: dice.chance(THIN[usize::from(swarm.parity)]),
        sectors: swarm.sectors,
        admin_commands: 30,
        cut_every: swarm.cut_every,
        life: swarm.life.max(100),
    }
}

impl Swarm {
    /// Makes the stack a stress stack.
    pub fn apply_stress(&mut self, it: Stress) {
        (self.is_stress, self.changes, self.online_changes) = (true, true, true);
        (self.faults, self.spares, self.sectors) = (it.faults, it.spares, it.sectors);
        (self.admin_commands, self.cut_every, self.life) =
            (it.admin_commands, it.cut_every, it.life);
        // A volume that exports more than fits is filled first.
        if it.thin {
            (self.thin, self.fill) = (true, true);
        }
    }
}
