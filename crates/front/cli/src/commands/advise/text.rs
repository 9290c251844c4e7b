//! Text form of an advice: the verdict, a table of layers, and its conditions.

use hostftl_frontend::advise::Answer;
use hostftl_frontend::judgement::{Judged, limit_name};
use hostftl_sim::{Limit, Offer, Relative};

use super::table;
use crate::commands::compare::{exceeded, life, times};
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, three_digits};

/// Returns the name of a layer in an advice.
pub(super) fn label(layer: &str) -> String {
    match layer {
        "passthrough" => "no layer".to_owned(),
        _ => layer.to_owned(),
    }
}

/// Prints an advice.
pub(super) fn print(answer: &Answer, console: &mut Console) -> Result<(), Failure> {
    console.narrow();
    console.paragraph(&verdict(answer))?;
    answer.placement_text().iter().try_for_each(|text| console.paragraph(text))?;
    console.line("")?;
    table::print(answer, console)?;
    console.line("")?;
    let texts = [question(answer), words(answer)].into_iter().chain(about(answer));
    texts.collect::<Vec<_>>().iter().try_for_each(|text| console.paragraph(text))
}

/// Returns the explanation of wear, speed and latency.
pub(super) fn words(answer: &Answer) -> String {
    let words = "wear, speed and latency are relative to no layer: bytes programmed, requests/s at \
                 a queue depth of 32, and p99 at 70 % of the rate without a layer.";
    if answer.offers.iter().any(|it| it.offer.as_ref().is_some_and(|offer| offer.is_screened)) {
        return format!("{words} ~: counted after brief ageing, and not timed.");
    }
    words.to_owned()
}

/// Returns the layers without a recommendation with their reasons, the conditions that change the
/// verdict, its confidence, and cautions.
pub(super) fn about(answer: &Answer) -> Vec<String> {
    let has_failed = |layer: &str, why: &str| {
        answer.failures.iter().any(|it| it.layer == layer && it.failed == why)
    };
    let not_asked = answer.offers.iter().filter_map(|told| {
        let why = told.failed.as_ref().filter(|why| !has_failed(&told.name, why))?;
        Some(format!("Not compared: {}: {why}.", told.name))
    });
    let failed = answer
        .failures
        .iter()
        .map(|it| format!("Failed: {} ({}, seed {}): {}.", it.layer, it.state, it.seed, it.failed));
    let impossible = answer.offers.iter().filter_map(|told| {
        let why = told.offer.as_ref()?.impossible.as_ref()?;
        Some(format!("Impossible at this size: {}: {why}.", told.name))
    });
    let cautions = answer.cautions.iter().map(|text| format!("Caution: {text}."));
    let texts = not_asked.chain(failed).chain(impossible).chain(violations(answer));
    texts.chain(changes(answer)).chain(sure(answer)).chain(cautions).collect()
}

/// Returns a sentence for each layer that exceeds limits other than its size.
fn violations(answer: &Answer) -> impl Iterator<Item = String> + '_ {
    let none = answer.offer("passthrough");
    answer.offers.iter().filter_map(move |told| {
        let offer = told.offer.as_ref()?;
        let judged = Judged::of(offer, none, told.broken.clone());
        let limits = told.broken.iter().filter(|limit| **limit != Limit::Size);
        let limits: Vec<String> = limits.map(|limit| exceeded(*limit, &judged)).collect();
        let text = || format!("Not recommended: {} violates {}.", told.name, limits.join(", "));
        (!limits.is_empty()).then(text)
    })
}

/// Describes the workload, the drive and the slice on which the study ran.
pub(super) fn question(answer: &Answer) -> String {
    let Answer { workload, drive, state, slice, .. } = answer;
    let percent = |share: f64| three_digits(100.0 * share);
    let mut text = format!(
        "{workload} on {drive}. Its data is {} % of the {} that the host can address",
        percent(slice.hot),
        whole(answer, answer.exported_bytes)
    );
    text += &format!("; state before: {state}. ");
    if slice.slice_bytes == slice.drive_bytes {
        return text + "The study ran on the whole drive.";
    }
    text += &format!("The study ran on a slice of {}", bytes(slice.slice_bytes));
    if let Some(units) = slice.reclaim_units {
        text += &format!(" with {units} reclaim units");
    }
    if slice.dies < slice.drive_dies {
        let (dies, of) = (slice.dies, slice.drive_dies);
        text += &format!(" and {dies} of {of} dies: rates are those of the slice");
    }
    text + "."
}

/// Formats the size on the whole drive that corresponds to `bytes` of the slice.
fn whole(answer: &Answer, bytes: u64) -> String {
    let slice = &answer.slice;
    size(bytes as f64 / slice.slice_bytes as f64 * slice.drive_bytes as f64)
}

/// Formats a size as drives are sold.
pub(super) fn size(bytes: f64) -> String {
    match bytes {
        1e12.. => format!("{} TB", three_digits(bytes / 1e12)),
        _ => format!("{} GB", three_digits(bytes / 1e9)),
    }
}

/// Returns the verdict in a sentence.
pub(super) fn verdict(answer: &Answer) -> String {
    let none = answer.offer("passthrough");
    let offer = answer.verdict.as_deref().and_then(|name| answer.offer(name));
    let Some(offer) = offer else {
        return "Verdict: no layer meets these limits, nor does the drive alone.".into();
    };
    let name = label(&offer.layer);
    let Some(none) = none else {
        let lasts = lasts(answer, offer).map_or(String::new(), |text| format!("; {text}"));
        let waf = offer.waf;
        return format!("Verdict: {name}: it programs {waf:.2} bytes per host byte{lasts}.");
    };
    if offer.layer == none.layer {
        let lasts = lasts(answer, offer).map_or(String::new(), |text| format!(": {text}"));
        let others = answer.offers.iter().filter(|it| it.broken.is_empty());
        let others = others.filter_map(|it| it.offer.as_ref()).filter(|it| !it.is_none);
        let best = others.min_by(|one, other| one.waf.total_cmp(&other.waf));
        let best = best.map_or(String::new(), |best| {
            let wear = times(best.relative(Some(none)).wear);
            format!("; the best layer within the limits, {}, has wear {wear}", best.layer)
        });
        return format!("Verdict: {name}{lasts}{best}.");
    }
    let Relative { wear, speed, latency } = offer.relative(Some(none));
    let figures = match (speed, latency) {
        (None, None) => format!("wear {} (speed and latency not timed)", times(wear)),
        _ => format!("wear {}, speed {}, latency {}", times(wear), times(speed), times(latency)),
    };
    let instead = format!(" instead of {} without a layer", shortest(none));
    let lasts = lasts(answer, offer).map_or(String::new(), |text| format!("; {text}{instead}"));
    format!(
        "Verdict: {name}: {figures} relative to no layer, for {} of memory{lasts}.",
        bytes(offer.memory_bytes)
    )
}

/// Returns the clause about the life of the drive at the load.
fn lasts(answer: &Answer, offer: &Offer) -> Option<String> {
    let load = answer.load_bytes_per_day.filter(|_| offer.years.is_some())?;
    let capacity = size(answer.capacity_bytes as f64);
    let years = life((offer.years, offer.years_uneven));
    Some(format!("at {}/day, a drive of {capacity} lasts {years}", size(load)))
}

/// Formats the life of an offer with its uneven wear, if that is known.
pub(super) fn shortest(offer: &Offer) -> String {
    life((offer.years_uneven.into_iter().chain(offer.years).reduce(f64::min), None))
}

/// Returns the conditions that would change the verdict, one sentence each.
fn changes(answer: &Answer) -> Vec<String> {
    let mut texts = Vec::new();
    for (limit, layer) in &answer.without {
        let waf = answer.offer(layer).map_or(0.0, |offer| offer.waf);
        let (limit, layer) = (limit_name(*limit), label(layer));
        texts.push(format!("Without {limit}: {layer}, {waf:.2} bytes."));
    }
    let verdict = answer.verdict.as_deref().and_then(|name| answer.offer(name));
    if let (Some(check), Some(offer)) = (&answer.compressed, verdict) {
        let turns = check.waf < offer.waf && check.layer != offer.layer;
        texts.push(format!(
            "The data is assumed to be incompressible, because its compressibility is unknown. At \
            2:1, {} programs {:.2} bytes: {}. Measure it and add it as TRACE:compress=RATIO.",
            check.layer,
            check.waf,
            if turns { "this would change the verdict" } else { "the verdict is the same" }
        ));
    }
    texts.extend(states(answer));
    texts.extend(roomier(answer));
    texts
}

/// Returns the results with a smaller export, and so more over-provisioning.
fn roomier(answer: &Answer) -> Option<String> {
    let roomier = answer.roomier.as_ref()?;
    let all = roomier.checks.iter().map(|it| format!("{} {:.2}", label(&it.layer), it.waf));
    let (texts, less) = (all.collect::<Vec<_>>().join("; "), whole(answer, roomier.exported_bytes));
    Some(format!("With {less} for the host (--export): {texts}."))
}

/// Returns the results in other states of the drive, one sentence for each.
fn states(answer: &Answer) -> Vec<String> {
    let mut states: Vec<&str> = Vec::new();
    for check in answer.checks.iter().filter(|check| check.state != answer.state) {
        if !states.contains(&check.state.as_str()) {
            states.push(&check.state);
        }
    }
    let of_state = |state: &&str| {
        let all = answer.checks.iter().filter(|check| check.state == *state);
        let texts: Vec<String> =
            all.map(|check| format!("{} {:.2}", label(&check.layer), check.waf)).collect();
        format!("In the state {state}: {}.", texts.join("; "))
    };
    states.iter().map(of_state).collect()
}

/// Returns the confidence of the decision between the best two, over all seeds.
fn sure(answer: &Answer) -> Option<String> {
    let (least, most) = answer.ahead()?;
    let (next, seeds) = (label(answer.runner_up.as_ref()?), 1 + extra_seeds(answer));
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    if answer.quick {
        let order = if least > 1.0 { "" } else { ": the order of the two is uncertain" };
        return Some(format!(
            "Confidence: {next} programs {:+.1} % to {:+.1} % after brief and longer \
             ageing{order}.",
            percent(least),
            percent(most)
        ));
    }
    if !answer.depends_on_seed {
        return Some(format!(
            "Confidence: {next} programs {:+.1} %. These runs do not depend on a seed; another \
             recording of the same workload may differ.",
            percent(least)
        ));
    }
    if seeds == 1 {
        let more = percent(least);
        return Some(format!("Confidence: {next} programs {more:+.1} %, with one seed (--seeds)."));
    }
    Some(format!(
        "Confidence: {next} programs {:+.1} % to {:+.1} % over {seeds} seeds{}.",
        percent(least),
        percent(most),
        if least > 1.0 { "" } else { ": the order of the two is uncertain" }
    ))
}

/// Returns the number of seeds without the first.
fn extra_seeds(answer: &Answer) -> usize {
    let verdict = answer.verdict.as_deref();
    let is_it = |layer: &str| Some(layer) == verdict;
    answer.checks.iter().filter(|it| it.state == answer.state && is_it(&it.layer)).count()
}
