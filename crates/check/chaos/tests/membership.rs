//! Sequences of faults of the member list.

use hostftl_chaos::membership::{Seen, run_membership};

#[test]
fn the_rules_of_membership_hold() {
    let mut seen = Seen::default();
    for seed in 0..100_000 {
        if let Err(breach) = run_membership(seed, &mut seen) {
            panic!("{breach}");
        }
    }
    println!("{seen:?}");
    let Seen { served, degraded, asked, apart, flushes, losses, torn, .. } = seen;
    let Seen { admin_commands, cut_commands, .. } = seen;
    for (what, count) in [
        ("starts", served),
        ("degraded starts", degraded),
        ("starts that ask for consent", asked),
        ("members served apart", apart),
        ("flushes", flushes),
        ("losses", losses),
        ("torn superblocks", torn),
        ("changes of the members", admin_commands),
        ("changes that were cut off", cut_commands),
    ] {
        assert!(count > 200, "only {count} {what}");
    }
}
