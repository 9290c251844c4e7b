//! The best layers: their wear on a drive that was aged until write amplification settled, the rate
//! that they sustain, and their latencies at a rate that the drive sustains without a layer.

use hostftl_sim::{Advice, Limits, MOST_SPANS, Offer, Pace, Row, Study, advise};

use super::Round;
use super::rounds::Studies;
use crate::wrong::Wrong;

/// Queue depth at which the sustained rate is measured.
const DEPTH: u32 = 32;
/// Share of the rate without a layer at which latencies are measured. At the full rate they would
/// only show the length of the queue.
const LOAD: f64 = 0.7;
/// Number of timed offers after which a runner-up is no longer timed.
const MOST: usize = 6;

/// Returns `study` with the full ageing of a drive.
pub(super) fn full(study: &Study) -> Study {
    Study { most_spans: MOST_SPANS, ..study.clone() }
}

/// Examines none and the best offers until the recommended one is examined, and returns the advice.
/// An offer that turns out to wear more, or to break a limit, makes room for the next one. `make`
/// makes the offer of a row.
pub(super) fn find(
    study: &Study,
    offers: &mut [Offer],
    limits: &Limits,
    make: &dyn Fn(&Row) -> Offer,
    run: &mut Studies,
) -> Result<Advice, Wrong> {
    let study = &full(study);
    let none = offers.iter().position(|offer| offer.is_none);
    let (mut aged, mut timed) = (Vec::new(), Vec::new());
    loop {
        let advice = advise(offers, limits);
        let runner_up = advice.runner_up.filter(|_| timed.len() < MOST);
        let best = [none, advice.verdict, runner_up];
        let fresh = |done: &[usize]| -> Vec<usize> {
            let best = best.into_iter().flatten();
            let mut fresh: Vec<usize> = best.filter(|index| !done.contains(index)).collect();
            fresh.sort_unstable();
            fresh.dedup();
            fresh
        };
        let wanted = fresh(&aged);
        if !wanted.is_empty() {
            for row in rows(study, offers, &wanted, (Pace::Counted, Round::Finalists), run)? {
                set(offers, &row, |offer| *offer = Offer { is_screened: false, ..make(&row) });
            }
            aged.extend(wanted);
            continue;
        }
        let wanted = fresh(&timed);
        if wanted.is_empty() {
            return Ok(advice);
        }
        time(study, offers, (none, &wanted), make, run)?;
        timed.extend(wanted);
    }
}

/// Measures rates, latencies and wear of the offers `wanted` with modelled times. `none` is the
/// drive without a layer; on a raw drive the first of them is the reference.
fn time(
    study: &Study,
    offers: &mut [Offer],
    (none, wanted): (Option<usize>, &[usize]),
    make: &dyn Fn(&Row) -> Offer,
    run: &mut Studies,
) -> Result<(), Wrong> {
    for row in rows(study, offers, wanted, (Pace::Closed(DEPTH), Round::Timing), run)? {
        let rate = row.requests as f64 * 1e9 / row.simulated_ns as f64;
        set(offers, &row, |offer| offer.requests_per_s = Some(rate).filter(|it| it.is_finite()));
    }
    let Some(rate) = offers[none.unwrap_or(wanted[0])].requests_per_s else { return Ok(()) };
    let interval = Pace::Every((1e9 / (LOAD * rate)).ceil() as u64);
    for row in rows(study, offers, wanted, (interval, Round::Timing), run)? {
        let latency = &row.latency_ns;
        let p99_ns = latency.read.iter().chain(&latency.write).map(|it| it.p99).max();
        // Padding at flushes depends on the writes in progress, which only a timed run has.
        set(offers, &row, |offer| {
            let requests_per_s = offer.requests_per_s;
            *offer = Offer { is_screened: false, requests_per_s, p99_ns, ..make(&row) };
        });
    }
    Ok(())
}

/// Runs the offers `wanted` at a pace.
fn rows(
    study: &Study,
    offers: &[Offer],
    wanted: &[usize],
    (pace, round): (Pace, Round),
    run: &mut Studies,
) -> Result<Vec<Row>, Wrong> {
    let is_wanted = |name: &String| wanted.iter().any(|&index| offers[index].layer == *name);
    let layers = study.layers.iter().filter(|layer| is_wanted(&layer.name)).cloned().collect();
    let study = Study { layers, pace, ..study.clone() };
    Ok(run.run(&study, round)?.rows)
}

fn set(offers: &mut [Offer], row: &Row, set: impl Fn(&mut Offer)) {
    offers.iter_mut().filter(|offer| offer.layer == row.layer).for_each(set);
}
