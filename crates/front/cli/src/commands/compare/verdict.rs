//! Verdicts on the layers of a comparison, as sentences.

use hostftl_frontend::judgement::{Judged, Judgement, limit_name};
pub(super) use hostftl_frontend::state;
use hostftl_sim::{Limit, Relative, Row};

use super::report::times;
use super::scale::life;
use crate::units::bytes;

/// Groups adjacent rows by workload, drive and state.
pub(super) fn groups(rows: &[Row]) -> Vec<&[Row]> {
    let place = |row: &Row| (row.workload.clone(), row.drive.clone(), state(row).to_owned());
    rows.chunk_by(|one, other| place(one) == place(other)).collect()
}

/// Returns the title of a row of `rows`: its layer, and its drive, state and workload if they
/// differ among the rows.
pub(super) fn title(row: &Row, rows: &[Row]) -> String {
    let mut title = row.layer.clone();
    if rows.iter().any(|other| other.drive != row.drive) {
        title = format!("{title} on {}", row.drive);
    }
    if rows.iter().any(|other| state(other) != state(row)) {
        title = format!("{title} ({})", state(row));
    }
    if rows.iter().any(|other| other.workload != row.workload) {
        title = format!("{title} under {}", row.workload);
    }
    title
}

/// Returns the baseline of the rows that have one: `none`, `raid5`, or `base` if both occur.
pub(super) fn base(rows: &[Row]) -> &'static str {
    let mut bases = rows.iter().filter_map(|row| row.base.as_deref());
    let is_none = |base: &str| base == "passthrough";
    match (bases.clone().all(is_none), bases.all(|base| !is_none(base))) {
        (true, _) => "none",
        (false, true) => "raid5",
        (false, false) => "base",
    }
}

/// Returns the judgement of a row.
pub(super) fn of_row<'a>(row: &Row, all: &'a [Judgement]) -> Option<&'a Judgement> {
    all.iter().find(|it| it.has(row))
}

/// Returns the workload, drive and state of a judgement, as far as they differ among `all`.
fn place(it: &Judgement, all: &[Judgement]) -> String {
    let parts: [fn(&Judgement) -> &str; 3] = [|it| &it.workload, |it| &it.drive, |it| &it.warm];
    let differing = parts.iter().filter(|get| all.iter().any(|other| get(other) != get(it)));
    differing.map(|get| get(it)).collect::<Vec<_>>().join(", ")
}

/// Returns the name of a baseline in sentences.
fn no_layer(base: Option<&str>) -> &str {
    match base {
        Some("passthrough") | None => "no layer",
        Some(base) => base,
    }
}

/// Returns the sentence with the verdict of each judgement.
pub(super) fn sentences(all: &[Judgement]) -> Vec<String> {
    let one = |it| match place(it, all) {
        place if place.is_empty() => format!("Verdict: {}.", verdict(it)),
        place => format!("Verdict ({place}): {}.", verdict(it)),
    };
    all.iter().map(one).collect()
}

/// Returns the recommended layer with its figures.
fn verdict(it: &Judgement) -> String {
    let none = no_layer(it.base.as_deref());
    let judged = it.verdict.as_deref().and_then(|layer| it.judged(layer));
    let Some(judged) = judged else {
        let none = if none == "no layer" { "the drive alone" } else { none };
        return format!("no layer meets the limits, nor does {none}");
    };
    let Judged { layer, relative: Relative { wear, speed, latency }, memory_bytes, .. } = judged;
    if !it.recommends() {
        return format!("{none}; no layer reduces wear by 3 % or more within the limits");
    }
    let memory = bytes(*memory_bytes);
    if it.base.is_none() {
        return format!("{layer} has the least wear, with {memory} of memory");
    }
    let [wear, speed, latency] = [wear, speed, latency].map(|ratio| times(*ratio));
    format!(
        "{layer}: wear {wear}, speed {speed}, latency {latency} relative to {none}; {memory} of \
         memory"
    )
}

/// Returns a sentence for each layer that exceeds limits other than its size, with the states.
pub(super) fn violations(all: &[Judgement]) -> Vec<String> {
    let mut texts: Vec<(String, Vec<String>)> = Vec::new();
    for it in all {
        for judged in &it.layers {
            let limits = judged.broken.iter().filter(|limit| **limit != Limit::Size);
            let limits: Vec<String> = limits.map(|limit| exceeded(*limit, judged)).collect();
            if limits.is_empty() {
                continue;
            }
            let text = match place(it, all) {
                place if place.is_empty() => limits.join(", "),
                place => format!("{} ({place})", limits.join(", ")),
            };
            match texts.iter_mut().find(|(layer, _)| *layer == judged.layer) {
                Some((_, known)) => known.push(text),
                None => texts.push((judged.layer.clone(), vec![text])),
            }
        }
    }
    let text = |(layer, known): (String, Vec<String>)| {
        format!("Not recommended: {layer} violates {}.", known.join("; "))
    };
    texts.into_iter().map(text).collect()
}

/// Returns a limit with the figure that exceeds it.
pub(crate) fn exceeded(limit: Limit, judged: &Judged) -> String {
    let figure = match limit {
        Limit::Speed => times(judged.relative.speed),
        Limit::Latency => times(judged.relative.latency),
        Limit::Ram => bytes(judged.memory_bytes),
        Limit::Life => life((judged.years, None)),
        Limit::P99 | Limit::Size => return limit_name(limit).to_owned(),
    };
    format!("{} at {figure}", limit_name(limit))
}

/// Summarizes all judgements in a sentence.
pub(super) fn of_all(all: &[Judgement]) -> String {
    let [one] = all else {
        let recommended: Vec<&Judgement> = all.iter().filter(|it| it.recommends()).collect();
        let wear = |it: &Judgement| {
            let judged = it.judged(it.verdict.as_deref()?);
            judged?.relative.wear
        };
        let known = recommended.iter().filter_map(|it| Some((*it, wear(it)?)));
        let least = known.min_by(|(_, one), (_, other)| one.total_cmp(other));
        return match (least, all.len()) {
            (_, 0) => "There is nothing to compare: no two layers have results.".into(),
            (None, count) => format!("No layer is recommended in any of the {count} cases."),
            (Some((it, _)), count) => format!(
                "A layer is recommended in {} of {count} cases. The least relative wear, {}, is: \
                 {}.",
                recommended.len(),
                place(it, all),
                verdict(it)
            ),
        };
    };
    format!("Verdict: {}.", verdict(one))
}
