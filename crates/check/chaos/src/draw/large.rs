//! Large volumes with many small writes between cuts. They fill queues and reserves of a layer that
//! small volumes do not fill.

use hostftl_layers::LayerKind;

use super::swarm::{Sizes, Swarm};
use crate::dice::Dice;

/// Separates this random stream from the others of the seed, so that other seeds are unchanged.
const SALT: u64 = 0x6c61_7267_6520_6f6e;

/// Options of a large volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Large {
    sectors: u64,
    /// Superpage that only a large volume has.
    superpage: Option<u32>,
    sizes: Sizes,
    hot: u32,
    sequential: u32,
    fill: bool,
    also: bool,
    mix: [u32; 5],
    fua: u32,
    cut_every: u64,
}

/// Draws a large volume for one seed in 80.
pub(super) fn draw(seed: u64, layer: LayerKind) -> Option<Large> {
    let mut dice = Dice::new(seed.rotate_left(32) ^ SALT, layer as u64);
    let large = layer.registration().chaos.large.filter(|_| dice.chance(12))?;
    Some(Large {
        sectors: dice.pick(&[16, 24, 48, 96]) * 2048 + dice.below(256) * 8,
        superpage: (!large.superpages.is_empty()).then(|| dice.pick(large.superpages)),
        sizes: dice.pick(&[Sizes::Tiny, Sizes::Tiny, Sizes::Small, Sizes::Block]),
        hot: dice.pick(&[0, 0, 300]),
        sequential: dice.pick(&[0, 0, 100]),
        fill: dice.chance(200),
        also: dice.chance(large.also.0),
        // A trim of the whole volume would empty the structures that should fill.
        mix: [2, 50, dice.pick(&[0, 0, 0, 1]), 0, dice.pick(&[0, 0, 1, 5])],
        fua: dice.pick(&[0, 0, 20]),
        cut_every: dice.pick(&[10_000, 100_000, 300_000]),
    })
}

impl Swarm {
    /// Makes the volume large.
    pub fn enlarge(&mut self, it: Large) {
        self.sectors = it.sectors;
        if let Some(superpage) = it.superpage {
            (self.superpage, self.iu_sectors) = (superpage, superpage);
        }
        (self.sizes, self.hot.0, self.grain) = (it.sizes, it.hot, 1);
        (self.sequential, self.fill, self.also) = (it.sequential, it.fill, it.also);
        (self.mix, self.fua) = (it.mix, it.fua);
        (self.life, self.cut_every) = (20_000, it.cut_every);
    }
}
