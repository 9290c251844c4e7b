//! Test of the checker: the ordinary stream of seeds finds every planted bug.
#![cfg(feature = "planted")]

use std::time::Instant;

use hostftl_chaos::membership::{Seen, run_membership};
use hostftl_chaos::{Campaign, Goal, catch_panics};
use hostftl_format::planted as members;
use hostftl_layers::{Bug, LayerKind, plant};

/// Number of seeds to try for each bug.
const MOST: u64 = 4000;
/// Bugs that few seeds reveal, with a seed that revealed it. These are tried first, so that the
/// test takes seconds instead of minutes. An outdated seed only costs time; the test prints the
/// present ones.
const RARE: [(Bug, u64); 25] = [
    (Bug::HomeListedEarly, 13425),
    (Bug::HomeOverNewer, 744),
    (Bug::RootAfterFailure, 800),
    (Bug::CorruptElsewhere, 590),
    (Bug::MapWriteIgnored, 195),
    (Bug::JointReused, 430),
    (Bug::ZonesListEarly, 300),
    (Bug::OldEpoch, 416),
    (Bug::FilledInPart, 92),
    (Bug::StripeForgotten, 78),
    (Bug::ZonesVictimNotPinned, 88),
    (Bug::SecondParityPlain, 63),
    (Bug::OneWayOnly, 51),
    (Bug::JournalStale, 49),
    (Bug::ReturnerWhole, 41),
    (Bug::JoinedEarly, 31),
    (Bug::OlderBelieved, 26),
    (Bug::ClaimUnrecorded, 26),
    (Bug::CorruptUntold, 34),
    (Bug::ThinTrimRefused, 25),
    (Bug::JournalLast, 24),
    (Bug::DirtyEvicted, 21),
    (Bug::CountsNotFrozen, 21),
    (Bug::TimedOutScratchReused, 88),
    (Bug::RepairReportedEarly, 146),
];

/// Returns the seed of `from..to` that finds `bug`, which is planted.
fn finder(bug: Bug, seeds: (u64, u64)) -> Option<u64> {
    let named = LayerKind::EVERY.iter().find(|layer| layer.name() == bug.layer());
    let layer = *named.expect("a bug names its layer");
    let goal = Goal { seeds, steps: 0, threads: 2 };
    Campaign::new(layer, goal, None).run(|_| true).err().map(|it| it.seed)
}

#[test]
fn every_planted_bug_is_found() {
    catch_panics();
    let mut escaped = Vec::new();
    for &bug in Bug::ALL {
        let begun = Instant::now();
        let near = RARE.iter().find(|(rare, _)| *rare == bug).map(|&(_, seed)| (seed, seed + 1));
        plant(Some(bug));
        let seed = near.and_then(|seeds| finder(bug, seeds)).or_else(|| finder(bug, (0, MOST)));
        plant(None);
        if seed.is_none() {
            escaped.push(bug.name());
        }
        let (seconds, seed) = (begun.elapsed().as_secs_f64(), seed.map_or(-1, |it| it as i64));
        println!("{seconds:>8.1} s  {} {}: seed {seed}", bug.layer(), bug.name());
    }
    // The panic hook of chaos prints no panics.
    println!("not found in {MOST} seeds: {escaped:?}");
    assert!(escaped.is_empty(), "not found in {MOST} seeds: {escaped:?}");
}

#[test]
fn every_planted_bug_of_the_membership_is_found() {
    let mut escaped = Vec::new();
    for &bug in members::Bug::ALL {
        members::set(Some(bug));
        let found = (0..20_000).find_map(|seed| run_membership(seed, &mut Seen::default()).err());
        members::set(None);
        match found {
            Some(breach) => {
                println!("membership {}: seed {}, {:?}", bug.name(), breach.seed, breach.rule)
            }
            None => escaped.push(bug.name()),
        }
    }
    assert!(escaped.is_empty(), "not found in 20000 seeds: {escaped:?}");
}
