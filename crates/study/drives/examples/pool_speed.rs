//! Benchmark of a pool that only counts: `cargo run --release -p hostftl-drives --example
//! pool_speed [RUNS]`.
//!
//! It writes uniformly at random to 16,384 × 256 pages at utilisation 0.742 in steady state, with
//! greedy victims, one write point and copies in bursts of 64 as on a drive with 64 planes, on one
//! core and without a drive.

use std::time::Instant;

use hostftl_drives::pool::{Pool, PoolSpec};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const SEGMENTS: u32 = 16_384;
const PAGES: u32 = 256;
const UTILISATION: f64 = 0.742;
/// Copies made together, as many as there are planes.
const BURST: u32 = 64;
/// Host writes of a run.
const WRITES: u32 = 20_000_000;
/// Overwrites before the first run.
const WARM: u32 = 8;

fn write(pool: &mut Pool, dice: &mut Xoshiro256PlusPlus, logical: u32, count: u32) {
    for _ in 0..count {
        pool.write(dice.random_range(0..logical), &mut |_| {});
    }
}

fn main() {
    let runs = std::env::args().nth(1).map_or(5, |runs| runs.parse().expect("a number of runs"));
    let physical = SEGMENTS * PAGES;
    let logical = (f64::from(physical) * UTILISATION) as u32;
    let spec = PoolSpec { burst: BURST, ..PoolSpec::new(SEGMENTS, PAGES, logical) };
    let mut pool = Pool::new(spec).expect("a possible pool");
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(1);
    let start = Instant::now();
    (0..logical).for_each(|page| pool.write(page, &mut |_| {}));
    let filled = start.elapsed().as_secs_f64();
    write(&mut pool, &mut dice, logical, logical * WARM);
    let warm = start.elapsed().as_secs_f64();
    let (mut rates, begin) = (Vec::new(), pool.work());
    for _ in 0..runs {
        let (before, start) = (pool.work(), Instant::now());
        write(&mut pool, &mut dice, logical, WRITES);
        let programs = pool.work().since(&before).programs() as f64;
        rates.push(programs / start.elapsed().as_secs_f64() / 1e6);
    }
    rates.sort_by(f64::total_cmp);
    assert_eq!(pool.check(), Ok(()), "the pool keeps its invariants");
    println!(
        "{:.1} ({:.1}–{:.1}) M flash writes/s, {:.2} B a page, WAF {:.4} at α {:.4}, \
         filled in {filled:.2} s, warm in {warm:.2} s",
        rates[rates.len() / 2],
        rates[0],
        rates[rates.len() - 1],
        pool.bytes() as f64 / f64::from(physical),
        pool.work().since(&begin).waf(),
        pool.alpha()
    );
}
