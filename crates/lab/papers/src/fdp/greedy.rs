//! An independent model of greedy garbage collection, which shares no code with the drive models.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Blocks of a reclaim unit. Those of a real drive have more.
const BLOCKS: usize = 512;
/// Parts of a pass with a figure each.
pub(super) const PARTS: usize = 8;
/// Open units besides those in circulation: one for the host, and one for copies.
const OPEN: usize = 2;

/// Units that were written in order, and the place of each block.
struct Greedy {
    units: Vec<Vec<usize>>,
    valid: Vec<usize>,
    places: Vec<Option<(usize, usize)>>,
    free: Vec<usize>,
    /// Units that are being filled by the host and by copies.
    open: [usize; OPEN],
    programmed: u64,
}

impl Greedy {
    fn put(&mut self, block: usize, stream: usize) {
        if self.units[self.open[stream]].len() == BLOCKS {
            self.open[stream] = self.free.pop().expect("collection leaves a free unit");
        }
        let unit = self.open[stream];
        if let Some((old, _)) = self.places[block].replace((unit, self.units[unit].len())) {
            self.valid[old] -= 1;
        }
        self.units[unit].push(block);
        self.valid[unit] += 1;
        self.programmed += 1;
    }

    /// Returns the closed unit with the fewest valid blocks.
    fn victim(&self) -> Option<usize> {
        let is_closed = |unit: &usize| !self.open.contains(unit) && !self.free.contains(unit);
        (0..self.units.len()).filter(is_closed).min_by_key(|unit| self.valid[*unit])
    }

    fn collect(&mut self, victim: usize) {
        for (at, block) in std::mem::take(&mut self.units[victim]).into_iter().enumerate() {
            if self.places[block] == Some((victim, at)) {
                self.put(block, 1);
            }
        }
        self.free.push(victim);
    }

    fn write(&mut self, block: usize) {
        while self.free.len() < OPEN {
            self.collect(self.victim().expect("units are closed"));
        }
        self.put(block, 0);
    }
}

/// Returns the write amplification of each part of a pass, as means of the passes 2 to `passes`:
/// each block is written once per pass in random order. `alpha` is the space in circulation per
/// block that holds data.
pub(super) fn curve((alpha, units): (f64, usize), passes: usize, seed: u64) -> [f64; PARTS] {
    let blocks = (units as f64 * BLOCKS as f64 / alpha) as usize;
    let all = units + OPEN;
    let mut drive = Greedy {
        units: vec![Vec::new(); all],
        valid: vec![0; all],
        places: vec![None; blocks],
        free: (OPEN..all).collect(),
        open: [0, 1],
        programmed: 0,
    };
    let mut order: Vec<usize> = (0..blocks).collect();
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut curve = [0.0; PARTS];
    for pass in 0..passes {
        order.shuffle(&mut dice);
        for (part, blocks) in order.chunks(order.len().div_ceil(PARTS)).enumerate() {
            let before = drive.programmed;
            blocks.iter().for_each(|block| drive.write(*block));
            let waf = (drive.programmed - before) as f64 / blocks.len() as f64;
            curve[part] += if pass > 0 { waf / (passes - 1) as f64 } else { 0.0 };
        }
    }
    curve
}
