//! A sweep beyond the paper: interval, share of M and cache policy, with the Pareto front of speed
//! and life.

use hostftl_layers::TierPolicy;
use hostftl_report::{Axis, Lines};

use super::loads::Load;
use super::play_all;
use super::stack::{Outcome, Setup};
use crate::sheet::snake;
use crate::{Cell, Error, Findings, Options, Sheet, Watch};

const INTERVALS: [u32; 4] = [0, 5, 20, 100];
/// Share of each workload that is played: the first quarter.
const PART: u64 = 4;
const SHARES: [u32; 4] = [10, 50, 100, 200];
const POLICIES: [(TierPolicy, &str); 4] = [
    (TierPolicy::Lru, "lru"),
    (TierPolicy::Exclusive, "exclusive"),
    (TierPolicy::Writes, "writes"),
    (TierPolicy::After(2), "after-2"),
];

/// Returns the number of requests that the sweep plays.
pub(super) fn requests(all: &[Load]) -> u64 {
    let setups = POLICIES.len() * SHARES.len() * INTERVALS.len();
    all.iter().map(|load| load.shorter(PART).count).sum::<u64>() * setups as u64
}

/// Adds a table and a chart for each workload.
pub(super) fn sweep(
    findings: &mut Findings,
    all: &[Load],
    options: &Options,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let mut setups = Vec::new();
    for (policy, _) in POLICIES {
        for share in SHARES {
            for interval in INTERVALS {
                setups.push(Setup { intervals: [interval; 2], share, policy });
            }
        }
    }
    let short: Vec<Load> = all.iter().map(|load| load.shorter(PART)).collect();
    let jobs: Vec<(&Load, Setup)> =
        short.iter().flat_map(|load| setups.iter().map(move |&setup| (load, setup))).collect();
    let outcomes = play_all(&jobs, options, watch)?;
    findings.violations.extend(outcomes.iter().filter_map(|it| it.violation.clone()));
    for (load, outcomes) in short.iter().zip(outcomes.chunks(setups.len())) {
        let fronts = SHARES.map(|share| {
            let of_share = (0..setups.len()).filter(|&index| setups[index].share == share);
            front(outcomes, of_share.collect())
        });
        findings.sheets.push(table(load, &setups, outcomes, &fronts.concat()));
        findings.figures.push(chart(load, outcomes, &fronts));
    }
    findings.setting.push(
        "The sweep plays the first quarter of each workload on every mix of interval (0, 5, 20, \
         100 in both memories), share of M (1, 5, 10, 20 %) and policy. For each share it shows \
         the mixes that no other mix of the same share beats in both figures, because M \
         determines the cost."
            .into(),
    );
    Ok(())
}

/// Returns the elements of `order` on the Pareto front, from the fastest on.
fn front(outcomes: &[Outcome], mut order: Vec<usize>) -> Vec<usize> {
    let figures = |index: usize| (outcomes[index].iops, outcomes[index].life());
    order.sort_by(|&a, &b| {
        let ((fast, long), (other_fast, other_long)) = (figures(a), figures(b));
        other_fast.total_cmp(&fast).then(other_long.total_cmp(&long))
    });
    let mut longest = 0.0;
    order.retain(|&index| {
        let life = outcomes[index].life();
        let better = life > longest;
        longest = life.max(longest);
        better
    });
    order
}

fn table(load: &Load, setups: &[Setup], outcomes: &[Outcome], front: &[usize]) -> Sheet {
    let title = format!("{}: speed against life, Pareto front", load.name);
    let mut sheet = Sheet::new(format!("pareto_{}", snake(&load.name)), title)
        .words(["policy"])
        .input(["M (%)", "interval"])
        .ours(["IOPS", "life (GB written)"]);
    for &index in front {
        let (setup, outcome) = (&setups[index], &outcomes[index]);
        let policy = POLICIES.iter().find(|(policy, _)| *policy == setup.policy);
        sheet.row([
            policy.map_or("", |(_, name)| name).into(),
            Cell::Number(f64::from(setup.share) / 10.0, 0),
            Cell::Number(f64::from(setup.intervals[0]), 0),
            Cell::Number(outcome.iops, 0),
            Cell::Number(outcome.life() * 512.0 / 1e9, 1),
        ]);
    }
    sheet
}

fn chart(load: &Load, outcomes: &[Outcome], fronts: &[Vec<usize>]) -> hostftl_report::Figure {
    let title = format!("{}: life against speed, by M's share", load.name);
    let whole = |value: f64| format!("{value:.0}");
    let (x, y) = (Axis::linear("IOPS", whole), Axis::log("life, GB written", whole));
    let mut lines = Lines::new(&title, x, y).steps();
    for (front, share) in fronts.iter().zip(SHARES) {
        let points = front.iter().map(|&index| {
            let outcome = &outcomes[index];
            (outcome.iops, outcome.life() * 512.0 / 1e9)
        });
        lines = lines.series(&format!("{} %", share / 10), points.collect());
    }
    lines.figure()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_lab_devices::scm::Wear;

    #[test]
    fn dominated_mixes_are_omitted() {
        let of = |iops, most| {
            let wear = [Wear { most: 1, ..Wear::default() }, Wear { most, ..Wear::default() }];
            Outcome { iops, in_turn: iops, written: 1000, wear, moved: 0, violation: None }
        };
        let outcomes = [of(10.0, 9), of(30.0, 10), of(20.0, 10), of(5.0, 2), of(5.0, 3)];
        assert_eq!(front(&outcomes, (0..5).collect()), [1, 0, 3]);
        assert_eq!(front(&outcomes, vec![2, 4]), [2, 4]);
    }
}
