//! Parameters of drawn drives are recovered from their counters.
//!
//! `cargo test --release -p hostftl-calibrate --test recovery -- --ignored --nocapture` prints each
//! drive with the fit, and takes some minutes.

use hostftl_calibrate::{BINS, Calibration, FitError, Log, fit};
use hostftl_drives::pool::{Frontiers, GcPolicy, Pool, PoolSpec};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const DRIVES: usize = 20;
/// Pages of a unit of a hidden drive. A fit simulates pools with fewer.
const PAGES: u32 = 2048;
const PASSES: usize = 12;
/// Bars: difference of α, relative difference of the units, and drives with the right policy.
const ALPHA: f64 = 0.01;
const UNITS: f64 = 0.2;
const POLICIES: usize = 18;

/// Parameters that a fit must find.
#[derive(Debug)]
struct Hidden {
    alpha: f64,
    units: u32,
    gc: GcPolicy,
}

impl Hidden {
    fn draw(index: usize, rng: &mut Xoshiro256PlusPlus) -> Self {
        let policies = [GcPolicy::Greedy, GcPolicy::Fifo, GcPolicy::DChoices(2)];
        let units = 60.0 * 6.0_f64.powf(rng.random_range(0.0..1.0));
        let alpha = rng.random_range(1.09..1.35);
        Hidden { alpha, units: units as u32, gc: policies[index % policies.len()] }
    }

    /// Returns the log of the drive under a permutation.
    fn log(&self, rng: &mut Xoshiro256PlusPlus) -> Log {
        let physical = f64::from(self.units) * f64::from(PAGES);
        let spec = PoolSpec::new(self.units, PAGES, (physical / self.alpha).round() as u32);
        let mut spec = PoolSpec { gc: self.gc, frontiers: Frontiers::Separate, seed: 99, ..spec };
        spec.segments += spec.aside();
        let mut pool = Pool::new(spec).expect("the drive is possible");
        let mut order: Vec<u32> = (0..spec.logical).collect();
        let mut curve = Vec::new();
        for _ in 0..PASSES {
            order.shuffle(rng);
            for bin in 0..BINS {
                let before = pool.work();
                let [from, to] = [bin, bin + 1].map(|it| it * order.len() / BINS);
                order[from..to].iter().for_each(|&page| pool.write(page, &mut |_| {}));
                curve.push(pool.work().since(&before).waf());
            }
        }
        Log::new(curve).expect("it has passes")
    }
}

#[test]
#[ignore = "takes minutes"]
fn drawn_drives_are_recovered() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(61);
    let (mut policies, mut alphas, mut units, mut covered) = (0, 0, Vec::new(), 0);
    for index in 0..DRIVES {
        let hidden = Hidden::draw(index, &mut rng);
        let found = fit(&hidden.log(&mut rng), PASSES);
        println!("{hidden:?}: {}", outcome(&found));
        let Ok(found) = found else { continue };
        policies += usize::from(found.fit.shape.gc == hidden.gc);
        alphas += usize::from((found.alpha.value - hidden.alpha).abs() < ALPHA);
        covered += usize::from((found.alpha.from..=found.alpha.to).contains(&hidden.alpha));
        if let Some(it) = found.units {
            units.push((f64::from(it.value) / f64::from(hidden.units) - 1.0).abs() < UNITS);
        }
    }
    let right = units.iter().filter(|it| **it).count();
    println!(
        "policy {policies}, α {alphas} (in its interval {covered}), units {right} of {}",
        units.len()
    );
    assert!(policies >= POLICIES && alphas >= POLICIES, "policy {policies}, α {alphas}");
}

fn outcome(found: &Result<Calibration, FitError>) -> String {
    match found {
        Ok(found) => {
            let (alpha, units) = (found.alpha, found.units);
            format!(
                "{} α {:.4} ({:.4} to {:.4}), units {:?}, rms {:.4}",
                found.fit.shape.gc,
                alpha.value,
                alpha.from,
                alpha.to,
                units.map(|it| (it.from, it.value, it.to)),
                found.fit.rms
            )
        }
        Err(why) => why.to_string(),
    }
}
