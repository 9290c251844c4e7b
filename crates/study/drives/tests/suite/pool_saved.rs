//! A loaded pool behaves like the saved one, and invalid data is refused.

use hostftl_drives::pool::{EarlyGc, FlashOp, Frontiers, LoadError, Pool, PoolSpec};
use proptest::prelude::*;

fn spec() -> impl Strategy<Value = PoolSpec> {
    let words = ["greedy", "fifo", "random", "d-choices:3", "cost-benefit", "declining-cost"];
    let gc = prop::sample::select(words.to_vec());
    let frontiers = [Frontiers::Shared, Frontiers::Separate, Frontiers::Isolated];
    let shape = (30..60u32, 2..70u32, 0..3u32);
    (shape, gc, prop::sample::select(frontiers.to_vec()), 1..3u8, 0..4u32, 1..4u32).prop_map(
        |((segments, pages, spare), gc, frontiers, placements, level, burst)| {
            let gc = gc.parse().expect("a policy");
            let early = (spare > 0).then_some(EarlyGc { segments: spare, percent: 250 });
            let spec = PoolSpec { gc, frontiers, placements, level, burst, early, ..empty() };
            let spec = PoolSpec { seed: 5, ..spec };
            let logical = (segments - 2 * spec.aside() - spare) * pages;
            PoolSpec { segments, pages, logical, ..spec }
        },
    )
}

fn empty() -> PoolSpec {
    PoolSpec::new(0, 0, 0)
}

/// Executes writes and trims that follow from `seed`. Returns the flash operations.
fn play(pool: &mut Pool, seed: u64, count: u32) -> Vec<FlashOp> {
    let (mut ops, mut state, logical) = (Vec::new(), seed, u64::from(pool.spec().logical));
    for _ in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let page = ((state >> 33) % logical) as u32;
        match state >> 60 {
            0 => pool.trim(page),
            other => pool.write_to(page, (other % 3) as u8, &mut |op| ops.push(op)),
        }
    }
    ops
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_loaded_pool_continues_alike(spec in spec(), seed: u64, count in 0..30_000u32) {
        let mut pool = Pool::new(spec).unwrap();
        play(&mut pool, seed, count);
        let mut file = Vec::new();
        pool.save(&mut file).unwrap();
        let mut again = Pool::load(spec, &mut file.as_slice()).unwrap();
        prop_assert_eq!(again.work(), pool.work());
        let (before, ids) = (pool.work().programs(), pool.programmed_by_placement().to_vec());
        prop_assert_eq!(play(&mut again, !seed, 6_000), play(&mut pool, !seed, 6_000));
        prop_assert_eq!(again.work(), pool.work());
        // The work by placement id restarts at zero, but each page keeps its id.
        let sum = |pool: &Pool| pool.programmed_by_placement().iter().sum::<u64>();
        let has_ids = spec.placements > 1;
        prop_assert_eq!(sum(&pool), if has_ids { pool.work().programs() } else { 0 });
        let after: u64 = again.work().programs() - before;
        prop_assert_eq!(sum(&again), if has_ids { after } else { 0 });
        let grown = |id: usize| pool.programmed_by_placement()[id] - ids[id];
        let grown: Vec<u64> = (0..ids.len()).map(grown).collect();
        prop_assert_eq!(again.programmed_by_placement(), grown);
        prop_assert!(again.erased().eq(pool.erased()));
        prop_assert_eq!(again.check(), Ok(()));
    }

    #[test]
    fn a_damaged_file_is_refused(seed: u64, at in 0..1_000_000usize, flip in 1..256u32) {
        let spec = PoolSpec::new(30, 16, 30 * 12);
        let mut pool = Pool::new(spec).unwrap();
        play(&mut pool, seed, 2_000);
        let mut file = Vec::new();
        pool.save(&mut file).unwrap();
        let at = at % file.len();
        prop_assert!(Pool::load(spec, &mut &file[..at]).is_err(), "cut at {}", at);
        file[at] ^= flip as u8;
        prop_assert!(Pool::load(spec, &mut file.as_slice()).is_err(), "damaged at {}", at);
    }
}

#[test]
fn errors_are_reported_with_a_reason() {
    let spec = PoolSpec::new(30, 16, 30 * 12);
    let mut file = Vec::new();
    Pool::new(spec).unwrap().save(&mut file).unwrap();
    let refused = |spec, bytes: &[u8]| Pool::load(spec, &mut &bytes[..]).unwrap_err();
    let other = refused(PoolSpec { gc: "fifo".parse().unwrap(), ..spec }, &file).to_string();
    assert!(other.contains("gc=greedy") && other.contains("gc=fifo"), "{other}");
    assert!(matches!(refused(spec, b"not a saved pool at all"), LoadError::Foreign));
    let mut newer = file.clone();
    newer[8] = 9;
    assert!(matches!(refused(spec, &newer), LoadError::Version(9, 1)));
    let short = refused(spec, &file[..file.len() - 9]).to_string();
    assert!(short.contains("truncated"), "{short}");
    let sum = refused(spec, &file[..file.len() - 1]).to_string();
    assert!(sum.contains("checksum"), "{sum}");
    assert!(matches!(refused(PoolSpec { logical: 0, ..spec }, &file), LoadError::Impossible(_)));
}
