//! Stacks to which everything happens: faults of all kinds, and devices that come and leave, so
//! that each pair of them meets on one stack.

use hostftl_layers::LayerKind;

use crate::changes::LARGEST;
use crate::dice::Dice;
use crate::matrix::{Claims, Row};
use crate::swarm::Swarm;

/// Sets the choices of a seed here apart from all others.
const SALT: u64 = 0x6275_7379_2032;
/// How many stacks with one parity are busy, and with two, in thousandths.
const BUSY: [u32; 2] = [400, 900];
/// The same of those that may lose nothing but their journal.
const BUSY_WITH_JOURNAL: u32 = 950;
/// How many of the busy ones export more than fits, by their parities, and how many get more spares
/// than other devices.
const THIN: [u32; 3] = [400, 450, 800];
const SPARES: u32 = 600;
/// Sets the choice of these apart from that of busy ones.
const RARE: u64 = 0x7261_7265_2033;

/// Makes a stack busy, perhaps. Which faults a stack may have follows from what the layer claims.
pub fn choose(seed: u64, layer: LayerKind, claims: &Claims, swarm: &mut Swarm) {
    if !layer.registration().promises.changes() {
        return;
    }
    let mut rare = Dice::new(seed, RARE);
    if swarm.journal.is_some() {
        if swarm.mortal == swarm.journal && rare.chance(BUSY_WITH_JOURNAL) {
            with_journal(claims, swarm, &mut rare);
        }
        return;
    }
    let mut dice = Dice::new(seed, SALT);
    let parity = usize::from(swarm.parity).checked_sub(1);
    if !parity.is_some_and(|parity| dice.chance(BUSY[parity])) {
        return;
    }
    swarm.spares = rare.chance(SPARES);
    perhaps_thin(swarm, &mut rare);
    let faults = &mut swarm.faults;
    faults.cut = true;
    faults.dead = claims.admits(Row::DeadDevice);
    faults.stale = claims.admits(Row::StaleDevice);
    faults.log_rot = claims.admits(Row::LogRot) && dice.chance(500);
    faults.metadata_rot = claims.admits(Row::MetadataRot) && !faults.log_rot;
    faults.lost = claims.admits(Row::LostWrite);
    faults.misdirected = claims.admits(Row::MisdirectedWrite);
    (swarm.busy, swarm.changes, swarm.live_changes) = (true, true, true);
    // Larger ones get no more devices.
    swarm.sectors = swarm.sectors.min(LARGEST);
    // A scrub goes through to its end between two cuts.
    swarm.verbs = if swarm.parity > 1 { 120 } else { 30 };
    (swarm.cut_every, swarm.life) =
        (swarm.cut_every.max(dice.pick(&[100, 1000])), swarm.life.max(100));
}

/// The same of a stack that may lose its journal alone: devices come to it, and leave it.
fn with_journal(claims: &Claims, swarm: &mut Swarm, dice: &mut Dice) {
    let faults = &mut swarm.faults;
    faults.cut = true;
    faults.dead |= claims.admits(Row::DeadDevice);
    faults.log_rot |= claims.admits(Row::LogRot) && dice.chance(500);
    faults.metadata_rot |= claims.admits(Row::MetadataRot) && !faults.log_rot;
    (swarm.busy, swarm.changes, swarm.live_changes, swarm.verbs) = (true, true, true, 30);
    swarm.life = swarm.life.max(100);
    perhaps_thin(swarm, dice);
}

/// Perhaps it exports more than fits, and is written from end to end.
fn perhaps_thin(swarm: &mut Swarm, dice: &mut Dice) {
    if dice.chance(THIN[usize::from(swarm.parity)]) {
        (swarm.thin, swarm.fill) = (true, true);
    }
}
