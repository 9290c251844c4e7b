//! Text form of an advice: the verdict, a table of layers, and its conditions.

use hostftl_frontend::advise::{Answer, Told};
use hostftl_frontend::judgement::{limit_name, mark};
use hostftl_sim::{Offer, Relative};

use crate::commands::compare::{NOTHING, aligned, life, styled, times};
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, nanos, three_digits};

/// Returns the name of a layer in an advice.
fn label(layer: &str) -> String {
    match layer {
        "passthrough" => "none: write to the drive".to_owned(),
        _ => layer.to_owned(),
    }
}

/// Prints an advice.
pub(super) fn print(answer: &Answer, console: &mut Console) -> Result<(), Failure> {
    console.paragraph(&verdict(answer))?;
    console.line("")?;
    console.paragraph(&question(answer))?;
    console.lines(format!("\n{}\n", console.fit(table(answer))))?;
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
    let texts =
        not_asked.chain(failed).chain(impossible).chain(changes(answer)).chain(sure(answer));
    let words = "wear, speed and latency are relative to no layer: bytes programmed, requests/s at \
                 a queue depth of 32, and p99 at 70 % of the rate without a layer. ~: after brief \
                 ageing, which selects the layers to examine further.";
    let texts: Vec<String> = [words.to_owned()].into_iter().chain(texts).chain(cautions).collect();
    texts.iter().try_for_each(|text| console.paragraph(text))
}

/// Describes the workload, the drive and the slice on which the study ran.
fn question(answer: &Answer) -> String {
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
fn size(bytes: f64) -> String {
    match bytes {
        1e12.. => format!("{} TB", three_digits(bytes / 1e12)),
        _ => format!("{} GB", three_digits(bytes / 1e9)),
    }
}

fn verdict(answer: &Answer) -> String {
    let Some(name) = &answer.verdict else {
        return "Verdict: no layer meets these limits, nor does the drive alone.".into();
    };
    let none = answer.offer("passthrough");
    let mut text = format!("Verdict: {}.", label(name));
    if let (Some(offer), Some(none)) = (answer.offer(name), none.filter(|it| it.layer != *name)) {
        text += &format!(
            " It programs {:.2} bytes per host byte, no layer {:.2}: flash lasts {:.2} times as \
            long. It uses {} of memory.",
            offer.waf,
            none.waf,
            none.waf / offer.waf,
            bytes(offer.memory_bytes)
        );
        text += &at_load(answer, (offer, Some(none)));
    } else if let Some(offer) = answer.offer(name) {
        text += &format!(" It programs {:.2} bytes per host byte.", offer.waf);
        text += &at_load(answer, (offer, None));
    }
    let next = answer.runner_up.as_deref().and_then(|next| answer.offer(next));
    if let Some(next) = next {
        let (name, memory) = (label(&next.layer), bytes(next.memory_bytes));
        text += &format!(" Runner-up: {name}, {:.2} bytes, {memory} of memory.", next.waf);
    }
    text
}

/// Returns the sentence about the life of the drive at the load, compared with no layer.
fn at_load(answer: &Answer, (offer, none): (&Offer, Option<&Offer>)) -> String {
    let of = |offer: &Offer| life((offer.years, offer.years_uneven));
    let Some(load) = answer.load_bytes_per_day.filter(|_| offer.years.is_some()) else {
        return String::new();
    };
    let beside = none.map_or(String::new(), |none| format!(", without a layer {}", of(none)));
    format!(
        " At {}/day, a drive of {} lasts {}{beside}.",
        size(load),
        size(answer.capacity_bytes as f64),
        of(offer)
    )
}

fn table(answer: &Answer) -> comfy_table::Table {
    let mut table = styled();
    let heads = ["layer", "WAF", "wear", "speed", "p99", "latency", "life", "memory", ""];
    table.set_header(heads.iter().enumerate().map(|(at, head)| aligned(at == 0, (*head).into())));
    let none = answer.offer("passthrough");
    let both = (answer.verdict.as_deref(), answer.runner_up.as_deref());
    let mut order: Vec<&Told> = answer.offers.iter().collect();
    // Offers that were examined in full come first.
    order.sort_by_key(|told| told.offer.as_ref().is_some_and(|offer| offer.is_screened));
    for told in order {
        let Some(offer) = &told.offer else { continue };
        let about = if offer.is_screened { "~" } else { "" };
        let Relative { wear, speed, latency } = offer.relative(none);
        let cells = [
            label(&offer.layer),
            format!("{about}{:.2}", offer.waf),
            times(wear),
            times(speed),
            offer.p99_ns.map_or(NOTHING.into(), nanos),
            times(latency),
            life((offer.years, offer.years_uneven)),
            bytes(offer.memory_bytes),
            mark(&told.broken, &told.name, both),
        ];
        let cells = cells.into_iter().enumerate();
        table.add_row(cells.map(|(at, text)| aligned(at == 0 || at == 8, text)));
    }
    table
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
