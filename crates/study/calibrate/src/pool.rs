//! Write amplification of a simulated pool by parts of a pass.

use hostftl_drives::pool::{Frontiers, GcPolicy, Pool, PoolError, PoolSpec};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::log::BINS;

/// Pages of a simulated unit. Real units have far more. With only 64, the valid pages of victims
/// vary by chance, and the curve is flatter than that of a real drive.
const PAGES: u32 = 512;

/// Parameters of a pool that a fit determines. Copies have their own write point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolShape {
    /// Physical capacity in circulation, divided by the exported capacity.
    pub alpha: f64,
    /// Number of reclaim units, without those that are kept out of circulation.
    pub units: u32,
    /// Victim policy.
    pub gc: GcPolicy,
}

/// Returns the write amplification of each 1/32 of `passes` passes, the first of which fills the
/// pool.
///
/// # Errors
/// When such a pool is impossible.
pub fn simulate(shape: &PoolShape, passes: usize, seed: u64) -> Result<Vec<f64>, PoolError> {
    let physical = f64::from(shape.units) * f64::from(PAGES);
    let spec = PoolSpec::new(shape.units, PAGES, (physical / shape.alpha).round() as u32);
    let mut spec = PoolSpec { gc: shape.gc, frontiers: Frontiers::Separate, seed, ..spec };
    spec.segments += spec.aside();
    let mut pool = Pool::new(spec)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut order: Vec<u32> = (0..spec.logical).collect();
    let mut curve = Vec::with_capacity(passes * BINS);
    for _ in 0..passes {
        order.shuffle(&mut rng);
        for bin in 0..BINS {
            let before = pool.work();
            let [from, to] = [bin, bin + 1].map(|it| it * order.len() / BINS);
            order[from..to].iter().for_each(|&page| pool.write(page, &mut |_| {}));
            curve.push(pool.work().since(&before).waf());
        }
    }
    Ok(curve)
}
