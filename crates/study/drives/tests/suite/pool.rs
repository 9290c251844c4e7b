//! Properties of a pool besides data integrity: no allocation, bounded waits, even wear,
//! placements.

use hostftl_drives::pool::{FlashOp, Frontiers, GcPolicy, Pool, PoolSpec};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const POLICIES: [&str; 6] =
    ["greedy", "fifo", "random", "d-choices:10", "cost-benefit", "declining-cost"];

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

/// Greedy at a tight α: the copies that a write waits for are at most the victim's valid pages
/// divided by its invalid pages. A greedy victim has at least the average number of invalid pages
/// of all sealed segments.
#[test]
fn no_write_waits_for_a_whole_victim() {
    for frontiers in [Frontiers::Shared, Frontiers::Separate] {
        let (segments, pages) = (128, 256);
        let logical = segments * pages * 8 / 10;
        let spec = PoolSpec { frontiers, ..PoolSpec::new(segments, pages, logical) };
        let mut pool = Pool::new(spec).expect("a possible pool");
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(5);
        (0..logical).for_each(|page| pool.write(page, &mut |_| {}));
        // The sealed segments have all invalid pages except those of the open ones.
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

/// Writes all pages once, and then a twentieth of them again and again.
fn wear(level: u32) -> Pool {
    let (segments, pages) = (256, 64);
    let logical = segments * pages * 8 / 10;
    let spec = PoolSpec { level, ..PoolSpec::new(segments, pages, logical) };
    let mut pool = Pool::new(spec).expect("a possible pool");
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(9);
    (0..logical).for_each(|page| pool.write(page, &mut |_| {}));
    (0..logical * 100).for_each(|_| pool.write(dice.random_range(0..logical / 20), &mut |_| {}));
    assert_eq!(pool.check(), Ok(()));
    pool
}

#[test]
fn levelling_bounds_the_spread_of_wear() {
    let spread = |pool: &Pool| pool.erased().max().unwrap() - pool.erased().min().unwrap();
    let (level, uneven) = (8, wear(0));
    assert!(spread(&uneven) > 300, "without levelling {} erases lie between", spread(&uneven));
    let even = wear(level);
    assert!(spread(&even) <= 2 * level, "{} erases lie between", spread(&even));
    let work = even.work();
    assert!(work.levelled > 0 && uneven.work().levelled == 0);
    // Copies of wear levelling have their own counter, and are at most one page for every four of
    // the host.
    assert!(work.levelled * 4 <= work.host, "{work:?}");
    // The wear identity: all programs end in erases, spread over all segments.
    let mean = work.erases as f64 / f64::from(even.spec().segments);
    let expected = work.host as f64 * work.waf() / even.spec().physical() as f64;
    assert!((expected - mean - 1.0).abs() < 0.05, "{mean} erases, {expected} segments filled");
}

/// Streams that are overwritten together cost no copies when each has its own segments. Streams
/// that share segments do.
#[test]
fn placements_keep_streams_apart() {
    let run = |placements, frontiers| {
        let (segments, pages) = (96, 64);
        let logical = segments * pages * 7 / 10;
        let spec = PoolSpec { placements, frontiers, ..PoolSpec::new(segments, pages, logical) };
        let mut pool = Pool::new(spec).expect("a possible pool");
        let quarter = logical / 4;
        // Stream 0 is overwritten sequentially at every turn, stream 3 at every eighth.
        let turns = [1, 2, 4, 8];
        let mut next = [0; 4];
        for turn in 0..logical * 20 {
            for stream in (0..4).filter(|&it| turn % turns[it as usize] == 0) {
                let at = &mut next[stream as usize];
                *at = (*at + 1) % quarter;
                pool.write_to(stream * quarter + *at, stream as u8, &mut |_| {});
            }
        }
        assert_eq!(pool.check(), Ok(()));
        pool.work().waf()
    };
    let (mixed, apart) = (run(1, Frontiers::Shared), run(4, Frontiers::Shared));
    assert!(mixed > 1.1, "one frontier: {mixed}");
    assert!(apart < 1.0 + (mixed - 1.0) / 5.0, "four: {apart}, one: {mixed}");
    let (isolated, once) = (run(4, Frontiers::Isolated), run(4, Frontiers::Separate));
    assert!(isolated < mixed && once < mixed, "{isolated} and {once}, one frontier: {mixed}");
}

/// A sequential stream beside a random one. Copies of initially isolated handles share segments,
/// where the data of both streams is copied again. Persistently isolated handles copy less.
#[test]
fn handles_have_their_own_write_amplification() {
    let wafs = |frontiers| {
        let (segments, pages) = (256, 64);
        let (half, logical) = (segments * pages * 2 / 5, segments * pages * 4 / 5);
        let (placements, spec) = (2, PoolSpec::new(segments, pages, logical));
        let mut pool = Pool::new(PoolSpec { placements, frontiers, ..spec }).expect("possible");
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut sent = [0u64; 2];
        for turn in 0..logical * 20 {
            pool.write_to(turn % half, 0, &mut |_| {});
            pool.write_to(half + dice.random_range(0..half), 1, &mut |_| {});
            (sent[0], sent[1]) = (sent[0] + 1, sent[1] + 1);
        }
        let programmed = pool.programmed_by_placement().to_vec();
        assert_eq!(programmed.iter().sum::<u64>(), pool.work().programs(), "{frontiers}");
        assert_eq!(pool.check(), Ok(()));
        [0, 1].map(|id| programmed[id] as f64 / sent[id] as f64)
    };
    let [apart, mixed, shared] =
        [Frontiers::Isolated, Frontiers::Separate, Frontiers::Shared].map(wafs);
    // Greedy collection takes segments of the sequential stream before they are fully invalid, so
    // that stream has copies too.
    assert!(apart[0] < 1.25 && apart[1] > 1.5, "isolated: {apart:?}");
    let is_worse = |it: [f64; 2]| it[0] > 1.04 * apart[0] && it[1] > 1.1 * apart[1];
    assert!(is_worse(mixed), "copies of both in one segment: {mixed:?}, apart: {apart:?}");
    assert!(is_worse(shared), "copies behind new data: {shared:?}, apart: {apart:?}");
}

/// The hint names the pages that garbage collection moves next.
#[test]
fn the_hint_names_the_next_victim() {
    for gc in policies() {
        let spec = PoolSpec { gc, burst: 256, ..PoolSpec::new(64, 64, 64 * 50) };
        let mut pool = Pool::new(spec).expect("a possible pool");
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(4);
        assert_eq!(pool.next_victim(), None, "nothing is sealed");
        (0..64 * 50).for_each(|page| pool.write(page, &mut |_| {}));
        let mut kept = 0;
        for _ in 0..20_000 {
            let victim = pool.next_victim().expect("segments are sealed");
            let pages: Vec<u32> = pool.live_pages(victim).collect();
            assert!(pages.iter().all(|&page| pool.find(page).unwrap() / 64 == victim));
            let mut moved = Vec::new();
            pool.write(dice.random_range(0..64 * 50), &mut |op| {
                if let FlashOp::Copy { from, .. } = op {
                    moved.push(from);
                }
            });
            if !moved.is_empty() {
                // A victim without invalid pages is moved together with the next one.
                let first = &moved[..pages.len()];
                assert!(first.iter().all(|from| from / 64 == victim), "{gc}");
                kept += 1;
            }
        }
        assert!(kept > 100, "{gc} collected {kept} times");
    }
}
