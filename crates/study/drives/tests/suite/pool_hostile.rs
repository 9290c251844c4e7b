//! Adversarial hosts: with the least over-provisioning, and any order and placement of writes, a
//! write point always finds a segment and every invariant holds.

use hostftl_drives::pool::{EarlyGc, FlashOp, Frontiers, Pool, PoolSpec};
use proptest::prelude::*;

/// A series of host writes.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The same page every time.
    Same(u32),
    /// Sequential pages from this one on.
    Onward(u32),
    /// Every nth page.
    Strided(u32),
    /// Sequential trims from this page on.
    Trim(u32),
}

fn phase() -> impl Strategy<Value = (Phase, u8, u32)> {
    let kind = prop_oneof![
        any::<u32>().prop_map(Phase::Same),
        any::<u32>().prop_map(Phase::Onward),
        (2..999u32).prop_map(Phase::Strided),
        any::<u32>().prop_map(Phase::Trim),
    ];
    (kind, 0..4u8, 1..3_000u32)
}

fn spec() -> impl Strategy<Value = PoolSpec> {
    let words = ["greedy", "fifo", "random", "d-choices:2", "cost-benefit", "declining-cost"];
    let gc = prop::sample::select(words.to_vec());
    let frontiers = [Frontiers::Shared, Frontiers::Separate, Frontiers::Isolated];
    let frontiers = prop::sample::select(frontiers.to_vec());
    let early = prop::option::of((0..6u32, 1..2_000u32));
    (gc, frontiers, 1..4u8, 0..3u32, 1..20u32, 2..40u32, 1..9u32, early).prop_map(
        |(gc, frontiers, placements, level, burst, pages, sealed, early)| {
            let gc = gc.parse().expect("a policy");
            let early = early.map(|(segments, percent)| EarlyGc { segments, percent });
            let empty = PoolSpec::new(0, 0, 0);
            let spec = PoolSpec { gc, frontiers, placements, level, burst, early, ..empty };
            // The smallest number of segments that is possible for the exported capacity. Early
            // collection has more, or it would never start early.
            let more = early.map_or(0, |early| early.segments / 2);
            let segments = 2 * spec.aside() + sealed + more;
            PoolSpec { segments, pages, logical: sealed * pages, ..spec }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_frontier_runs_dry(spec in spec(), phases in prop::collection::vec(phase(), 1..12)) {
        let mut pool = Pool::new(spec).unwrap();
        for (phase, placement, count) in phases {
            for step in 0..count {
                let at = match phase {
                    Phase::Same(page) => u64::from(page),
                    Phase::Onward(page) | Phase::Trim(page) => u64::from(page) + u64::from(step),
                    Phase::Strided(by) => u64::from(by) * u64::from(step),
                };
                let page = (at % u64::from(spec.logical)) as u32;
                let mut programs = 0;
                match phase {
                    Phase::Trim(_) => pool.trim(page),
                    _ => pool.write_to(page, placement, &mut |op| {
                        programs += u32::from(matches!(op, FlashOp::Program { .. }));
                    }),
                }
                prop_assert_eq!(programs, u32::from(!matches!(phase, Phase::Trim(_))));
            }
            prop_assert_eq!(pool.check(), Ok(()));
        }
    }
}
