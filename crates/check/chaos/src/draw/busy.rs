//! Stacks to which everything happens: faults of all kinds, and devices that come and leave, so
//! that each pair of them meets on one stack.

use hostftl_layers::LayerKind;

use super::changes::LARGEST;
use super::swarm::{Faults, Swarm};
use crate::dice::Dice;
use crate::matrix::{Claims, Row};

/// Keeps this stream of chance apart from the seed's others.
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

/// A busy stack.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    faults: Faults,
    spares: bool,
    thin: bool,
    sectors: u64,
    verbs: u32,
    cut_every: u64,
    life: u64,
}

/// Draws whether everything happens to the stack of a seed. Its faults follow from the claims.
pub(super) fn draw(seed: u64, claims: &Claims, layer: LayerKind, swarm: &Swarm) -> Option<Busy> {
    if !layer.registration().promises.changes() {
        return None;
    }
    let mut rare = Dice::new(seed, RARE);
    if swarm.journal.is_some() {
        let is_busy = swarm.mortal == swarm.journal && rare.chance(BUSY_WITH_JOURNAL);
        return is_busy.then(|| with_journal(&mut rare, claims, swarm));
    }
    let mut dice = Dice::new(seed, SALT);
    let parity = usize::from(swarm.parity).checked_sub(1);
    if !parity.is_some_and(|parity| dice.chance(BUSY[parity])) {
        return None;
    }
    let spares = rare.chance(SPARES);
    let thin = rare.chance(THIN[usize::from(swarm.parity)]);
    let mut faults = swarm.faults;
    faults.cut = true;
    faults.dead = claims.admits(Row::DeadDevice);
    faults.stale = claims.admits(Row::StaleDevice);
    faults.log_rot = claims.admits(Row::LogRot) && dice.chance(500);
    faults.metadata_rot = claims.admits(Row::MetadataRot) && !faults.log_rot;
    faults.lost = claims.admits(Row::LostWrite);
    faults.misdirected = claims.admits(Row::MisdirectedWrite);
    Some(Busy {
        faults,
        spares,
        thin,
        // Larger ones get no more devices.
        sectors: swarm.sectors.min(LARGEST),
        // A scrub goes through to its end between two cuts.
        verbs: if swarm.parity > 1 { 120 } else { 30 },
        cut_every: swarm.cut_every.max(dice.pick(&[100, 1000])),
        life: swarm.life.max(100),
    })
}

/// The same of a stack that may lose its journal alone: devices come to it, and leave it.
fn with_journal(dice: &mut Dice, claims: &Claims, swarm: &Swarm) -> Busy {
    let mut faults = swarm.faults;
    faults.cut = true;
    faults.dead |= claims.admits(Row::DeadDevice);
    faults.log_rot |= claims.admits(Row::LogRot) && dice.chance(500);
    faults.metadata_rot |= claims.admits(Row::MetadataRot) && !faults.log_rot;
    Busy {
        faults,
        spares: swarm.spares,
        thin: dice.chance(THIN[usize::from(swarm.parity)]),
        sectors: swarm.sectors,
        verbs: 30,
        cut_every: swarm.cut_every,
        life: swarm.life.max(100),
    }
}

impl Swarm {
    /// Makes the stack busy.
    pub fn make_busy(&mut self, it: Busy) {
        (self.busy, self.changes, self.live_changes) = (true, true, true);
        (self.faults, self.spares, self.sectors) = (it.faults, it.spares, it.sectors);
        (self.verbs, self.cut_every, self.life) = (it.verbs, it.cut_every, it.life);
        // A volume that exports more than fits is written from end to end.
        if it.thin {
            (self.thin, self.fill) = (true, true);
        }
    }
}
