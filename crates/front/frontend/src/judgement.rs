//! Judgement of the rows of a comparison by the rules of an advice: wear, speed and latency
//! relative to the baseline, and the exceeded limits.

use hostftl_sim::{Advice, Limit, Limits, Offer, Relative, Row, Scaled, advise};
use serde::Serialize;

use crate::state;

/// Judgement of the layers on one drive, in one state, under one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    /// Workload.
    pub workload: String,
    /// Drive.
    pub drive: String,
    /// State of the drive before the workload.
    pub warm: String,
    /// Baseline of the relative figures: passthrough, or RAID 5 if passthrough can't run.
    pub base: Option<String>,
    /// Recommended layer; the baseline means none.
    pub verdict: Option<String>,
    /// Second best.
    pub runner_up: Option<String>,
    /// Each layer with a complete row, in the order of rows.
    pub layers: Vec<Judged>,
}

/// A layer of a judgement. With several seeds its figures are means.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Layer with its parameters.
    pub layer: String,
    /// Figures relative to the baseline.
    #[serde(flatten)]
    pub relative: Relative,
    /// Host memory in bytes.
    pub memory_bytes: u64,
    /// Years until the flash is worn out at the load; `None` without a projection.
    pub years: Option<f64>,
    /// Limits that it exceeds. A layer that exceeds one is never recommended.
    pub broken: Vec<Limit>,
    /// Reason why it can't run on the intended drive.
    pub impossible: Option<String>,
}

impl Judged {
    /// Returns the judgement of an offer that exceeds the limits `broken`; `none` is the baseline.
    pub fn of(offer: &Offer, none: Option<&Offer>, broken: Vec<Limit>) -> Self {
        Judged {
            layer: offer.layer.clone(),
            relative: offer.relative(none),
            memory_bytes: offer.memory_bytes,
            years: offer.years,
            broken,
            impossible: offer.impossible.clone(),
        }
    }
}

impl Judgement {
    /// Returns the judgement of a row's layer.
    pub fn judged(&self, layer: &str) -> Option<&Judged> {
        self.layers.iter().find(|it| it.layer == layer)
    }

    /// Returns whether the row is of this judgement.
    pub fn has(&self, row: &Row) -> bool {
        (self.workload.as_str(), self.drive.as_str(), self.warm.as_str())
            == (row.workload.as_str(), row.drive.as_str(), state(row))
    }

    /// Returns whether a layer other than the baseline is recommended.
    pub fn recommends(&self) -> bool {
        self.verdict.is_some() && self.verdict != self.base
    }

    /// Returns a mark for a table: the exceeded limits, `verdict`, `runner-up` or nothing.
    pub fn mark(&self, layer: &str) -> String {
        let broken = self.judged(layer).map_or(&[][..], |it| &it.broken);
        mark(broken, layer, (self.verdict.as_deref(), self.runner_up.as_deref()))
    }
}

/// Returns a mark for a table: the exceeded limits, `verdict`, `runner-up` or nothing.
pub fn mark(
    broken: &[Limit],
    layer: &str,
    (verdict, runner_up): (Option<&str>, Option<&str>),
) -> String {
    if !broken.is_empty() {
        let broken: Vec<&str> = broken.iter().map(|limit| limit_name(*limit)).collect();
        return format!("violates {}", broken.join(", "));
    }
    match Some(layer) {
        it if it == verdict => "verdict".to_owned(),
        it if it == runner_up => "runner-up".to_owned(),
        _ => String::new(),
    }
}

/// Returns the option of a limit.
pub fn limit_name(limit: Limit) -> &'static str {
    match limit {
        Limit::Ram => "--ram",
        Limit::P99 => "--p99",
        Limit::Life => "--life",
        Limit::Speed => "--min-speed",
        Limit::Latency => "--max-latency",
        Limit::Size => "its size",
    }
}

/// Judges the layers of each workload, drive and state. `scaled` has the projection of each row to
/// the intended drive. Partial rows have no part in it, and a single layer has nothing to be
/// compared with.
pub fn judge(rows: &[Row], scaled: Option<&[Scaled]>, limits: &Limits) -> Vec<Judgement> {
    let mut groups: Vec<Vec<(&Row, Option<&Scaled>)>> = Vec::new();
    let scaled = |at: usize| scaled.map(|all| &all[at]);
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| !row.partial) {
        let is_same = |group: &&mut Vec<(&Row, _)>| {
            let first = group[0].0;
            (&first.workload, &first.drive, state(first)) == (&row.workload, &row.drive, state(row))
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push((row, scaled(at))),
            None => groups.push(vec![(row, scaled(at))]),
        }
    }
    groups.iter().filter_map(|group| of_group(group, limits)).collect()
}

/// Judges the rows of one workload, drive and state.
fn of_group(group: &[(&Row, Option<&Scaled>)], limits: &Limits) -> Option<Judgement> {
    let (first, _) = group[0];
    let base = group.iter().find_map(|(row, _)| row.base.clone());
    let mut seeds: Vec<Vec<Offer>> = Vec::new();
    for (row, scaled) in group {
        let offer = Offer { is_none: Some(&row.layer) == base.as_ref(), ..Offer::of(row, *scaled) };
        match seeds.iter_mut().find(|all| all[0].layer == row.layer) {
            Some(all) => all.push(offer),
            None => seeds.push(vec![offer]),
        }
    }
    let offers: Vec<Offer> = seeds.iter().map(|all| mean(all)).collect();
    if offers.len() < 2 {
        return None;
    }
    let none = offers.iter().find(|it| it.is_none);
    let Advice { verdict, runner_up, broken, .. } = advise(&offers, limits);
    let name = |index: usize| offers[index].layer.clone();
    let layers = offers.iter().zip(broken).map(|(offer, broken)| Judged::of(offer, none, broken));
    Some(Judgement {
        workload: first.workload.clone(),
        drive: first.drive.clone(),
        warm: state(first).to_owned(),
        base,
        verdict: verdict.map(name),
        runner_up: runner_up.map(name),
        layers: layers.collect(),
    })
}

/// Returns the mean offer of a layer over its seeds. A life with uneven wear is the shortest.
fn mean(all: &[Offer]) -> Offer {
    let mean = |figure: &dyn Fn(&Offer) -> Option<f64>| {
        let known: Vec<f64> = all.iter().filter_map(figure).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    Offer {
        waf: mean(&|it| Some(it.waf)).unwrap_or(1.0),
        requests_per_s: mean(&|it| it.requests_per_s),
        p99_ns: mean(&|it| it.p99_ns.map(|ns| ns as f64)).map(|ns| ns.round() as u64),
        years: mean(&|it| it.years),
        years_uneven: all.iter().filter_map(|it| it.years_uneven).reduce(f64::min),
        memory_bytes: all.iter().map(|it| it.memory_bytes).max().unwrap_or(0),
        ..all[0].clone()
    }
}

#[cfg(test)]
mod tests {
    use hostftl_sim::{LayerSpec, Unobserved, compare};

    use super::*;
    use crate::Question;

    #[test]
    fn a_layer_that_exceeds_a_limit_or_can_not_exist_is_not_recommended() {
        let layer = |name| LayerSpec::parse(name).expect("a layer");
        let question = Question {
            workloads: vec!["synth:uniform:size=4k,span=16m,count=2000".into()],
            drives: vec!["hatl-1g:capacity=64m".into()],
            layers: Some(["none", "hard"].map(layer).to_vec()),
            warm: vec!["new".parse().expect("a state")],
            ..Question::default()
        };
        let study = question.study(&|| false).expect("a study");
        let rows = compare(&study, &Unobserved).expect("rows").rows;
        let limits = Limits::default();
        let all = judge(&rows, None, &limits);
        assert_eq!(all.len(), 1);
        assert!(all[0].recommends() && all[0].verdict.as_deref() == Some("hard"), "{all:?}");
        let judged = all[0].judged("hard").expect("it has a row");
        let wear = rows[1].waf_total.zip(rows[0].waf_total).map(|(hard, none)| hard / none);
        assert_eq!(judged.relative.wear, wear);
        assert_eq!(
            (all[0].mark("hard"), all[0].mark("passthrough")),
            ("verdict".into(), "runner-up".into())
        );

        let scaled = |row: &Row| {
            let load = "1TB/day".parse().expect("a load");
            let scaled = Scaled::of(row, &study.drives[0], &layer("hard"), 1 << 30, load);
            Scaled { impossible: Some("too large".into()), ..scaled }
        };
        let scaled: Vec<Scaled> = rows.iter().map(scaled).collect();
        let all = judge(&rows, Some(&scaled), &limits);
        assert_eq!((all[0].verdict.as_deref(), all[0].recommends()), (Some("passthrough"), false));
        assert_eq!(all[0].judged("hard").map(|it| &it.broken[..]), Some(&[Limit::Size][..]));

        let strict = Limits { memory_bytes: Some(1), ..limits };
        let all = judge(&rows, None, &strict);
        assert!(!all[0].recommends() && all[0].mark("hard") == "violates --ram", "{all:?}");
        assert!(judge(&rows[..1], None, &limits).is_empty(), "nothing to compare it with");
    }
}
