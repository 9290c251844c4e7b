//! The best layers on a drive that was aged until write amplification settled: the rate that they
//! sustain, and their wear and latencies at a rate that the drive sustains without a layer.

use hostftl_sim::{Advice, Limits, MOST_SPANS, Offer, Pace, Row, Study, advise};

use super::Round;
use super::rounds::Studies;
use crate::wrong::Wrong;

/// Queue depth at which the sustained rate is measured.
const DEPTH: u32 = 32;
/// Share of the rate without a layer at which wear and latencies are measured. At the full rate
/// latencies would only show the length of the queue.
const LOAD: f64 = 0.7;
/// Number of timed offers after which a runner-up is no longer timed.
const MOST: usize = 6;
/// A further runner-up is timed if it programs at most this factor more than the recommended offer:
/// longer ageing reduced the write amplification of brief ageing by up to a fifth.
const CLOSE: f64 = 1.25;

/// Times none and the best offers on `study`, which ages drives in full, until the recommended one
/// is timed. An offer that turns out to wear more, or to break a limit, makes room for the next
/// one. Sets the pace of `study` to that at which wear was measured. `rows` has the row of each
/// offer, and `make` makes the offer of a row.
pub(super) fn find(
    study: &mut Study,
    (rows, offers): (&mut [Row], &mut [Offer]),
    limits: &Limits,
    make: &dyn Fn(&Row) -> Offer,
    run: &mut Studies,
) -> Result<Advice, Wrong> {
    study.most_spans = MOST_SPANS;
    let none = offers.iter().position(|offer| offer.is_none);
    let mut timed: Vec<usize> = Vec::new();
    loop {
        let advice = advise(offers, limits);
        let verdict = advice.verdict.map_or(f64::INFINITY, |at| offers[at].waf);
        let is_close = |at: &usize| timed.is_empty() || offers[*at].waf <= CLOSE * verdict;
        let runner_up = advice.runner_up.filter(|at| timed.len() < MOST && is_close(at));
        let best = [none, advice.verdict, runner_up].into_iter().flatten();
        let mut wanted: Vec<usize> = best.filter(|index| !timed.contains(index)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Ok(advice);
        }
        if wanted.len() == 1 && !timed.is_empty() {
            // Another core times the offer that would come next.
            let is_open = |at: &usize| {
                advice.broken[*at].is_empty() && !wanted.contains(at) && !timed.contains(at)
            };
            let open = (0..offers.len()).filter(is_open);
            wanted
                .extend(open.min_by(|&one, &other| offers[one].waf.total_cmp(&offers[other].waf)));
        }
        study.pace = Pace::Closed(DEPTH);
        for (index, row) in timed_rows(study, offers, &wanted, run)? {
            let rate = row.requests as f64 * 1e9 / row.simulated_ns as f64;
            offers[index].requests_per_s = Some(rate).filter(|it| it.is_finite());
        }
        timed.extend(&wanted);
        // On a raw drive there is no drive without a layer, so the first layer is the reference.
        let Some(rate) = offers[none.unwrap_or(timed[0])].requests_per_s else { continue };
        study.pace = Pace::Every((1e9 / (LOAD * rate)).ceil() as u64);
        for (index, row) in timed_rows(study, offers, &wanted, run)? {
            let p99_ns = row.latency_ns.p99();
            let requests_per_s = offers[index].requests_per_s;
            offers[index] = Offer { is_screened: false, requests_per_s, p99_ns, ..make(&row) };
            rows[index] = row;
        }
    }
}

/// Runs the offers `wanted` and returns the row of each.
fn timed_rows(
    study: &Study,
    offers: &[Offer],
    wanted: &[usize],
    run: &mut Studies,
) -> Result<Vec<(usize, Row)>, Wrong> {
    let index = |name: &str| wanted.iter().copied().find(|&at| offers[at].layer == name);
    let layers = study.layers.iter().filter(|layer| index(&layer.name).is_some());
    let study = Study { layers: layers.cloned().collect(), ..study.clone() };
    let rows = run.one(&study, Round::Finalists)?.rows;
    Ok(rows.into_iter().filter_map(|row| Some((index(&row.layer)?, row))).collect())
}
