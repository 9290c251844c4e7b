//! Sequences of faults around who belongs to a volume.

use hostftl_chaos::membership::{Seen, run_membership};

#[test]
fn the_rules_of_membership_hold() {
    let mut seen = Seen::default();
    for seed in 0..50_000 {
        if let Err(breach) = run_membership(seed, &mut seen) {
            panic!("{breach}");
        }
    }
    println!("{seen:?}");
    let Seen { served, degraded, asked, apart, flushes, losses, torn, .. } = seen;
    for (what, count) in [
        ("starts", served),
        ("degraded starts", degraded),
        ("starts that ask for consent", asked),
        ("members served apart", apart),
        ("flushes", flushes),
        ("losses", losses),
        ("torn superblocks", torn),
    ] {
        assert!(count > 200, "only {count} {what}");
    }
}
