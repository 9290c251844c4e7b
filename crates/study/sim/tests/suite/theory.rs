//! The pool of a drive compared with closed forms, at the α that it reports.

use hostftl_drives::pool::{Frontiers, GcPolicy, Pool, PoolSpec, PoolWork};
use hostftl_sim::theory::{self, Class};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Pages of a pool, except for the two large ones.
const PHYSICAL: u32 = 262_144;
const ALPHAS: [f64; 3] = [1.10, 1.25, 1.50];

/// Distribution and length of the writes: overwrites of the mapped pages before and during the
/// measurement.
#[derive(Clone, Copy)]
struct Load {
    /// Share of writes to the hot pages, which are one minus this share of all pages.
    hot: f64,
    warm: u32,
    measured: u32,
}

const UNIFORM: Load = Load { hot: 0.5, warm: 8, measured: 4 };

/// Cold pages are rarely written, so the pool takes longer to lose the effects of the fill.
fn skewed(hot: f64) -> Load {
    Load { hot, warm: 24, measured: 8 }
}

fn classes(load: Load) -> [Class; 2] {
    let hot = Class { rate: load.hot, fraction: 1.0 - load.hot };
    [hot, Class { rate: hot.fraction, fraction: hot.rate }]
}

fn spec(alpha: f64, pages: u32, gc: &str, frontiers: Frontiers) -> PoolSpec {
    let gc: GcPolicy = gc.parse().unwrap();
    let logical = (f64::from(PHYSICAL) / alpha) as u32;
    let spec = PoolSpec::new(PHYSICAL / pages, pages, logical);
    PoolSpec { gc, frontiers, seed: 11, ..spec }
}

/// Fills a pool in random order and overwrites it. Returns the pool and its work during the
/// measurement.
fn run(spec: PoolSpec, load: Load) -> (Pool, PoolWork) {
    let mut pool = Pool::new(spec).unwrap();
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut order: Vec<u32> = (0..spec.logical).collect();
    order.shuffle(&mut dice);
    order.into_iter().for_each(|page| pool.write(page, &mut |_| {}));
    let hot = (f64::from(spec.logical) * (1.0 - load.hot)) as u32;
    let mut overwrite = |pool: &mut Pool, times: u32| {
        for _ in 0..u64::from(spec.logical) * u64::from(times) {
            let is_hot = load.hot == 0.5 || dice.random_bool(load.hot);
            let range = match (load.hot == 0.5, is_hot) {
                (true, _) => 0..spec.logical,
                (false, true) => 0..hot,
                (false, false) => hot..spec.logical,
            };
            pool.write(dice.random_range(range), &mut |_| {});
        }
    };
    overwrite(&mut pool, load.warm);
    let before = pool.work();
    overwrite(&mut pool, load.measured);
    assert_eq!(pool.check(), Ok(()), "{spec:?}");
    let work = pool.work().since(&before);
    (pool, work)
}

/// Runs a pool and compares its write amplification with `theory`, within `percent`.
#[track_caller]
fn agrees(spec: PoolSpec, load: Load, percent: f64, theory: impl Fn(f64) -> f64) {
    let (pool, work) = run(spec, load);
    let (waf, expected) = (work.waf(), theory(pool.alpha()));
    let off = (waf / expected - 1.0) * 100.0;
    println!(
        "{} {}, {} pages, α {:.4}, hot {}: measured {waf:.4}, theory {expected:.4}, {off:+.2} %",
        spec.gc,
        spec.frontiers,
        spec.pages,
        pool.alpha(),
        load.hot
    );
    assert!(off.abs() <= percent, "{spec:?}: {waf:.4} is {off:+.2} % off {expected:.4}");
}

#[test]
fn greedy_uniform() {
    for (pages, percent) in [(16, 3.0), (64, 2.0), (256, 2.0)] {
        for alpha in ALPHAS {
            let spec = spec(alpha, pages, "gc=greedy", Frontiers::Shared);
            agrees(spec, UNIFORM, percent, |alpha| theory::greedy(alpha, pages));
        }
    }
}

#[test]
fn fifo_uniform() {
    for alpha in ALPHAS {
        agrees(spec(alpha, 64, "fifo", Frontiers::Shared), UNIFORM, 2.0, theory::fifo);
    }
}

#[test]
fn random_uniform() {
    for alpha in ALPHAS {
        agrees(spec(alpha, 64, "random", Frontiers::Shared), UNIFORM, 2.0, theory::random);
    }
}

#[test]
fn d_choices_uniform() {
    for (gc, choices) in [("d-choices:2", 2), ("d-choices:10", 10)] {
        for alpha in ALPHAS {
            let spec = spec(alpha, 64, gc, Frontiers::Shared);
            agrees(spec, UNIFORM, 2.0, |alpha| theory::d_choices(alpha, choices, 64));
        }
    }
}

#[test]
fn greedy_skewed() {
    for hot in [0.8, 0.9] {
        let load = skewed(hot);
        for alpha in ALPHAS {
            let spec = spec(alpha, 64, "greedy", Frontiers::Shared);
            let theory = |alpha| theory::mixed_greedy(alpha, 64, &classes(load));
            agrees(spec, load, 2.0, theory);
        }
    }
}

#[test]
fn fifo_skewed() {
    for (hot, alpha) in [(0.8, 1.25), (0.9, 1.25), (0.8, 1.1)] {
        let load = skewed(hot);
        let spec = spec(alpha, 64, "fifo", Frontiers::Shared);
        agrees(spec, load, 2.0, |alpha| theory::mixed_fifo(alpha, &classes(load)));
    }
}

fn large(utilisation: f64) -> PoolSpec {
    let (segments, pages) = (16_384, 256);
    let logical = (f64::from(segments * pages) * utilisation) as u32;
    PoolSpec { seed: 11, ..PoolSpec::new(segments, pages, logical) }
}

const LARGE: Load = Load { measured: 1, ..UNIFORM };

/// Compares with the published figures in addition to the formula.
#[test]
fn one_large_pool_at_0_742() {
    agrees(large(0.742), LARGE, 2.0, |alpha| {
        assert!((alpha * 0.742 - 1.0).abs() < 0.001, "a large pool has the nominal α");
        2.125
    });
}

#[test]
fn one_large_pool_at_0_875() {
    agrees(large(0.875), LARGE, 2.0, |alpha| {
        assert!((alpha * 0.875 - 1.0).abs() < 0.001, "a large pool has the nominal α");
        4.120
    });
}

/// Segments as large as the superblocks of a drive with 64 planes, where excluding the open segment
/// affects α.
#[test]
fn one_pool_of_superblocks() {
    for utilisation in [0.742, 0.873] {
        let (segments, pages) = (256, 16_384);
        let logical = (f64::from(segments * pages) * utilisation) as u32;
        let spec = PoolSpec { seed: 11, ..PoolSpec::new(segments, pages, logical) };
        agrees(spec, LARGE, 2.0, |alpha| theory::greedy(alpha, pages));
    }
}

/// A separate open segment for copies separates hot from cold data. There is no closed form, so
/// these figures are golden.
#[test]
fn a_frontier_for_copies() {
    let golden = [
        ("greedy", 0.5, 2.6028),
        ("greedy", 0.8, 2.8069),
        ("greedy", 0.9, 3.0289),
        ("cost-benefit", 0.8, 2.4817),
        ("cost-benefit", 0.9, 1.8185),
        ("fifo", 0.8, 3.0391),
        ("random", 0.8, 5.0015),
        ("d-choices:10", 0.8, 2.6850),
    ];
    for (gc, hot, waf) in golden {
        let load = if hot == 0.5 { UNIFORM } else { skewed(hot) };
        let found = run(spec(1.25, 64, gc, Frontiers::Separate), load).1.waf();
        assert!((found - waf).abs() < 0.000_05, "{gc} on {hot}: {found:.4}, not {waf}");
    }
}

/// The erases predicted by the closed form equal the counters of the segments.
#[test]
fn wear_is_amplification_times_host_writes() {
    let spec = spec(1.25, 64, "greedy", Frontiers::Shared);
    let (pool, work) = run(spec, UNIFORM);
    let waf = theory::greedy(pool.alpha(), spec.pages);
    let expected = theory::mean_erases(work.host as f64, waf, spec.pages, spec.segments);
    let mean = work.erases as f64 / f64::from(spec.segments);
    assert!((mean / expected - 1.0).abs() <= 0.02, "{mean} erases, {expected} expected");
    assert_eq!(pool.erased().map(u64::from).sum::<u64>(), pool.work().erases);
}
