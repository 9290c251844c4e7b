//! `--quick`: the head of the workload on a smaller slice, with the counting clock only. The best
//! two are aged for longer, so that the answer shows how sure it is.

use std::path::Path;

use hostftl_sim::{Advice, Limits, Offer, Row, Study, advise};
use hostftl_trace::{Source, TraceFile, Writer};

use super::Round;
use super::placement::{Placement, without_ids};
use super::rounds::{Conditions, Studies, check};
use crate::wrong::Wrong;

/// Number of requests of the workload that are used. The slice follows from their addresses.
pub(super) const HEAD: u64 = 280_000;
/// Spans of ageing of the best two.
const SPANS: u64 = 2;

/// Returns the first [`HEAD`] requests of a source. Those of a trace are written to `folder`.
pub(super) fn head(source: Source, seed: u64, folder: &Path) -> Result<Source, Wrong> {
    match source {
        Source::Synth(mut work) => {
            work.count = work.count.min(HEAD);
            Ok(Source::Synth(work))
        }
        Source::Mixture(mut mixture) => {
            mixture.shorten(HEAD);
            Ok(Source::Mixture(mixture))
        }
        Source::File(_) | Source::KvCache(_) => {
            let stream = source.open(seed, false)?;
            let path = folder.join("head.flat");
            let mut writer = Writer::create(&path, stream.extras())?;
            for record in stream.take(HEAD as usize) {
                writer.write(&record?)?;
            }
            writer.finish()?;
            // Ageing writes data of the same compressibility.
            let compress = source.compressibility();
            Ok(Source::File(TraceFile { compress, ..TraceFile::new(path) }))
        }
        other => Ok(other),
    }
}

/// Ages none and the best two for longer. The figures after brief ageing become checks: how far
/// they differ from those after longer ageing shows how sure the answer is.
pub(super) fn find(
    study: &Study,
    (rows, offers): (&mut [Row], &mut [Offer]),
    limits: &Limits,
    make: &dyn Fn(&Row) -> Offer,
    run: &mut Studies,
) -> Result<(Advice, Conditions), Wrong> {
    let advice = advise(offers, limits);
    let is_asked =
        |at: &usize| offers[*at].is_none || [advice.verdict, advice.runner_up].contains(&Some(*at));
    let wanted: Vec<usize> = (0..offers.len()).filter(is_asked).collect();
    let names: Vec<String> = wanted.iter().map(|&at| offers[at].layer.clone()).collect();
    let layers = study.layers.iter().filter(|layer| names.contains(&layer.name));
    let longer = Study { layers: layers.cloned().collect(), most_spans: SPANS, ..study.clone() };
    let mut checks = Vec::new();
    for row in run.one(&longer, Round::Finalists)?.rows {
        let Some(at) = wanted.iter().copied().find(|&at| offers[at].layer == row.layer) else {
            continue;
        };
        checks.push(check(&rows[at], study.seed));
        (rows[at], offers[at]) = (row.clone(), make(&row));
    }
    let is_aged = |name: &str| names.iter().any(|it| it == name);
    let placement = match without_ids(&longer, is_aged)? {
        Some(study) => {
            let rows = run.one(&study, Round::Finalists)?.rows;
            let state = study.warm[0].to_string();
            Placement::of(&rows, study.seed, (offers, &state), |it| is_aged(&it.layer))
        }
        None => None,
    };
    Ok((advise(offers, limits), Conditions { checks, placement, ..Conditions::default() }))
}
