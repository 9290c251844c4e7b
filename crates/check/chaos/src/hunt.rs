//! Tests of the checker: the number of ordinary seeds until each planted bug is found.

use hostftl_chaos::{Campaign, Goal, Violation};
use hostftl_layers::{Bug, LayerKind, plant};

use crate::report::Format;
use crate::{Options, goal, layers};

/// Number of seed ranges in which each bug is hunted.
const RANGES: u64 = 5;

/// Reports the first seed that finds a bug. Returns false when none does.
pub(crate) fn one(options: &Options, name: &str) -> Result<bool, String> {
    let bug = Bug::ALL.iter().copied().find(|bug| bug.name() == name).ok_or_else(|| {
        let names: Vec<_> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        format!("unknown bug {name}; use one of {}", names.join(", "))
    })?;
    let mut goal = goal(options);
    if let Some(seed) = options.seed {
        goal.seeds = (seed, seed + 1);
    }
    let from = goal.seeds.0;
    if options.trace {
        plant(Some(bug));
        return Ok(!crate::replay(&layers(bug.layer())?, from, true));
    }
    match hunt(bug, &goal)? {
        Some(violation) => {
            let format = Format::new(options.json, 0);
            format.violation(&violation, &format!(" --bug {name}"));
            println!("{name} was found after {} seeds", violation.seed - from + 1);
            Ok(true)
        }
        None => {
            println!("{name} was not found in seeds {}..{}", goal.seeds.0, goal.seeds.1);
            Ok(false)
        }
    }
}

/// Hunts every bug in several ranges and prints a table. Returns false when one escapes.
pub(crate) fn all(options: &Options) -> Result<bool, String> {
    let (from, to) = options.seeds;
    let length = to - from;
    let mut goal = goal(options);
    let mut found_all = true;
    println!("seeds to find each planted bug, in {RANGES} ranges of {length} seeds:");
    for &bug in Bug::ALL {
        let mut counts = Vec::new();
        for range in 0..RANGES {
            goal.seeds = (from + range * length, from + (range + 1) * length);
            let found = hunt(bug, &goal)?;
            counts.push(found.map_or(u64::MAX, |violation| violation.seed - goal.seeds.0 + 1));
        }
        let cells: Vec<String> = counts.iter().map(|&count| cell(count)).collect();
        counts.sort_unstable();
        let median = counts[counts.len() / 2];
        found_all &= median < u64::MAX;
        let name = format!("{} ({})", bug.name(), bug.layer());
        println!("  {name:32} median {:>6}   each {}", cell(median), cells.join(" "));
    }
    Ok(found_all)
}

fn cell(count: u64) -> String {
    if count == u64::MAX { "-".into() } else { count.to_string() }
}

fn hunt(bug: Bug, goal: &Goal) -> Result<Option<Violation>, String> {
    let layer: LayerKind = layers(bug.layer())?[0];
    plant(Some(bug));
    let found = Campaign::new(layer, goal.clone(), None).run(|_| true).err();
    plant(None);
    Ok(found)
}

/// Enables a planted bug of the membership.
pub(crate) fn plant_in_membership(name: &str) -> Result<(), String> {
    use hostftl_format::planted::{Bug, set};
    let bug = Bug::ALL.iter().find(|bug| bug.name() == name);
    let names = || Bug::ALL.iter().map(|bug| bug.name()).collect::<Vec<_>>().join(", ");
    set(Some(
        *bug.ok_or_else(|| format!("unknown membership bug {name}; use one of {}", names()))?,
    ));
    Ok(())
}
