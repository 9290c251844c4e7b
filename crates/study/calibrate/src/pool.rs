//! Write amplification of a simulated pool by parts of a pass.

use hostftl_drives::pool::{EarlyGc, Frontiers, GcPolicy, Pool, PoolError, PoolSpec};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::log::BINS;

/// Pages of a simulated unit. Real units have far more. With only 64, the valid pages of victims
/// vary by chance, and the curve is flatter than that of a real drive.
pub(crate) const PAGES: u32 = 512;

/// Garbage collection that starts before it is necessary, at a limited rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Early {
    /// Free space below which it starts, divided by the exported capacity.
    pub share: f64,
    /// Maximum number of copies per host write.
    pub copies: f64,
}

/// Parameters of a pool that a fit determines. Copies have their own write point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolShape {
    /// Physical capacity in circulation, divided by the exported capacity.
    pub alpha: f64,
    /// Number of reclaim units, without those that are kept out of circulation.
    pub units: u32,
    /// Victim policy.
    pub gc: GcPolicy,
    /// Early garbage collection, or `None`.
    pub early: Option<Early>,
}

/// Returns the write amplification of each 1/32 of `passes` passes, the first of which fills the
/// pool.
///
/// # Errors
/// When such a pool is impossible.
pub fn simulate(shape: &PoolShape, passes: usize, seed: u64) -> Result<Vec<f64>, PoolError> {
    simulate_with(shape, PAGES, passes, seed)
}

/// Returns the curve of [`simulate`] with another number of pages of a unit.
pub(crate) fn simulate_with(
    shape: &PoolShape,
    pages: u32,
    passes: usize,
    seed: u64,
) -> Result<Vec<f64>, PoolError> {
    let spec = spec(shape, pages, seed);
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

fn spec(shape: &PoolShape, pages: u32, seed: u64) -> PoolSpec {
    let physical = f64::from(shape.units) * f64::from(pages);
    let spec = PoolSpec::new(shape.units, pages, (physical / shape.alpha).round() as u32);
    let early = shape.early.map(|early| EarlyGc {
        segments: (early.share * f64::from(shape.units) / shape.alpha).round() as u32,
        percent: (early.copies * 100.0).round().max(1.0) as u32,
    });
    let frontiers = Frontiers::Separate;
    let mut spec = PoolSpec { gc: shape.gc, frontiers, early, seed, ..spec };
    spec.segments += spec.aside();
    spec
}
