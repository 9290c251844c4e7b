//! The test of the test: the ordinary stream of seeds finds every planted bug.
#![cfg(feature = "planted")]

use hostftl_chaos::{Campaign, Goal, catch_panics};
use hostftl_layers::{Bug, LayerKind, plant};

#[test]
fn every_planted_bug_is_found() {
    catch_panics();
    let mut escaped = Vec::new();
    for &bug in Bug::ALL {
        let layer: LayerKind = bug.layer().parse().expect("a bug names its layer");
        let goal = Goal { seeds: (0, 1000), steps: 0, limit: None, events: 0, threads: 2 };
        plant(Some(bug));
        let found = Campaign::new(layer, goal, None).run(|_| true).is_err();
        plant(None);
        if !found {
            escaped.push(bug.name());
        }
    }
    // The hook that chaos sets says nothing of panics.
    println!("not found in 1000 seeds: {escaped:?}");
    assert!(escaped.is_empty(), "not found in 1000 seeds: {escaped:?}");
}
