//! What a pool promises besides keeping data: no allocation, bounded waits, even wear, placements.

use hostftl_drives::pool::{FlashOp, Frontiers, GcPolicy, Pool, PoolSpec};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const POLICIES: [&str; 5] = ["greedy", "fifo", "random", "d-choices:10", "cost-benefit"];

fn policies() -> impl Iterator<Item = GcPolicy> {
    POLICIES.into_iter().map(|word| word.parse().expect("a policy"))
}

#[test]
fn no_write_to_a_pool_allocates() {
    for gc in policies() {
        let (frontiers, logical) = (Frontiers::Isolated, 3_000);
        let spec = PoolSpec::new(64, 60, logical);
        let spec = PoolSpec { gc, frontiers, placements: 2, level: 4, ..spec };
        let mut pool = Pool::new(spec).expect("a possible pool");
        assert_eq!(pool.bytes(), Pool::memory(&spec), "memory is known before");
        let found = allocation_counter::measure(|| {
            for i in 0..40_000 {
                match i % 50 {
                    0 => pool.trim(i * 7_919 % logical),
                    _ => pool.write_to(i * 7_907 % logical, (i % 3) as u8, &mut |_| {}),
                }
            }
        });
        assert_eq!(found.count_total, 0, "{gc} allocated");
        assert!(pool.work().erases > 300, "{gc} turned over");
        assert_eq!(pool.bytes(), Pool::memory(&spec), "nothing grew");
    }
}

/// Greedy at a tight α: a write waits for no more copies than the victim's live pages over its stale
/// ones, which are at least what every sealed segment has on average.
#[test]
fn no_write_waits_for_a_whole_victim() {
    for frontiers in [Frontiers::Shared, Frontiers::Separate] {
        let (segments, pages) = (128, 256);
        let logical = segments * pages * 8 / 10;
        let spec = PoolSpec { frontiers, ..PoolSpec::new(segments, pages, logical) };
        let mut pool = Pool::new(spec).expect("a possible pool");
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(5);
        (0..logical).for_each(|page| pool.write(page, &mut |_| {}));
        // The sealed segments hold all stale pages but those of the open ones.
        let sealed = segments - 2 * spec.aside();
        let stale = f64::from(sealed * pages - logical) / f64::from(sealed * pages);
        let bound = ((1.0 - stale) / stale).ceil() as u32;
        let (mut most, mut all) = (0, 0u64);
        for _ in 0..logical * 10 {
            let mut copies = 0;
            pool.write(dice.random_range(0..logical), &mut |op| {
                copies += u32::from(matches!(op, FlashOp::Copy { .. }));
            });
            most = most.max(copies);
            all += u64::from(copies);
        }
        assert!(most <= bound, "{frontiers}: a write waited for {most} copies, not {bound}");
        assert!(all > u64::from(logical) * 5, "{frontiers}: only {all} copies");
    }
}
