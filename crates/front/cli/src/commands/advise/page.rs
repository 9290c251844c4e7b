//! An advice in words and a table.

use hostftl_frontend::advise::{Answer, Told};
use hostftl_sim::{Limit, Offer};

use crate::commands::compare::{NOTHING, aligned, life, styled};
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, nanos, three_digits};

/// How a layer is called here.
fn called(layer: &str) -> String {
    match layer {
        "passthrough" => "none: write to the drive".to_owned(),
        _ => layer.to_owned(),
    }
}

/// Prints everything.
pub(super) fn print(answer: &Answer, console: &mut Console) -> Result<(), Failure> {
    let Answer { workload, drive, state, .. } = answer;
    console.paragraph(&format!(
        "{workload} on {drive}, state before: {state}; the host can address {}",
        bytes(answer.exported_bytes)
    ))?;
    console.line("")?;
    console.paragraph(&verdict(answer))?;
    console.lines(format!("\n{}\n", console.fit(table(answer))))?;
    let has_failed = |layer: &str, why: &str| {
        answer.failures.iter().any(|it| it.layer == layer && it.failed == why)
    };
    let not_asked = answer.offers.iter().filter_map(|told| {
        let why = told.failed.as_ref().filter(|why| !has_failed(&told.name, why))?;
        Some(format!("Not asked: {}: {why}.", told.name))
    });
    let failed = answer
        .failures
        .iter()
        .map(|it| format!("Failed: {} ({}, seed {}): {}.", it.layer, it.state, it.seed, it.failed));
    let impossible = answer.offers.iter().filter_map(|told| {
        let why = told.offer.as_ref()?.impossible.as_ref()?;
        Some(format!("Not at that size: {}: {why}.", told.name))
    });
    let cautions = answer.cautions.iter().map(|text| format!("Caution: {text}."));
    let texts =
        not_asked.chain(failed).chain(impossible).chain(changes(answer)).chain(sure(answer));
    let texts: Vec<String> = texts.chain(cautions).collect();
    texts.iter().try_for_each(|text| console.paragraph(text))
}

fn verdict(answer: &Answer) -> String {
    let Some(name) = &answer.verdict else {
        return "Verdict: nothing keeps these limits, the drive without a layer included.".into();
    };
    let none = answer.offer("passthrough");
    let mut text = format!("Verdict: {}.", called(name));
    if let (Some(offer), Some(none)) = (answer.offer(name), none.filter(|it| it.layer != *name)) {
        text += &format!(
            " It programs {:.2} bytes for each of the host's, no layer {:.2}: flash lives {:.2} \
             times as long. It takes {} of memory.",
            offer.waf,
            none.waf,
            none.waf / offer.waf,
            bytes(offer.memory_bytes)
        );
        text += &at_load(answer, (offer, Some(none)));
    } else if let Some(offer) = answer.offer(name) {
        text += &format!(" That programs {:.2} bytes for each of the host's.", offer.waf);
        text += &at_load(answer, (offer, None));
    }
    let next = answer.runner_up.as_deref().and_then(|next| answer.offer(next));
    if let Some(next) = next {
        let (name, memory) = (called(&next.layer), bytes(next.memory_bytes));
        text += &format!(" Runner-up: {name}, {:.2} bytes, {memory} of memory.", next.waf);
    }
    text
}

/// Returns the sentence about the life of the drive at the load, beside that without a layer.
fn at_load(answer: &Answer, (offer, none): (&Offer, Option<&Offer>)) -> String {
    let of = |offer: &Offer| life((offer.years, offer.years_uneven));
    let Some(load) = answer.load_bytes_per_day.filter(|_| offer.years.is_some()) else {
        return String::new();
    };
    let beside = none.map_or(String::new(), |none| format!(", without a layer {}", of(none)));
    format!(
        " At {} GB/day, a drive of {} GB lives {}{beside}.",
        three_digits(load / 1e9),
        three_digits(answer.capacity_bytes as f64 / 1e9),
        of(offer)
    )
}

fn table(answer: &Answer) -> comfy_table::Table {
    let mut table = styled();
    let heads = ["layer", "waf", "vs none", "p99", "life", "memory", ""];
    table.set_header(heads.iter().enumerate().map(|(at, head)| aligned(at == 0, (*head).into())));
    let none = answer.offer("passthrough").map(|offer| offer.waf);
    for told in &answer.offers {
        let Some(offer) = &told.offer else { continue };
        let cells = [
            called(&offer.layer),
            format!("{:.2}", offer.waf),
            none.map_or(NOTHING.into(), |none| format!("{:.2}", offer.waf / none)),
            offer.p99_ns.map_or(NOTHING.into(), nanos),
            life((offer.years, offer.years_uneven)),
            bytes(offer.memory_bytes),
            mark(answer, told),
        ];
        let cells = cells.into_iter().enumerate();
        table.add_row(cells.map(|(at, text)| aligned(at == 0 || at == 6, text)));
    }
    table
}

/// What a row of the table is, or what is wrong with it.
fn mark(answer: &Answer, told: &Told) -> String {
    let name = Some(&told.name);
    if !told.broken.is_empty() {
        let broken: Vec<&str> = told.broken.iter().map(|limit| limit_name(*limit)).collect();
        return format!("breaks {}", broken.join(", "));
    }
    match name {
        _ if name == answer.verdict.as_ref() => "verdict".to_owned(),
        _ if name == answer.runner_up.as_ref() => "runner-up".to_owned(),
        _ => String::new(),
    }
}

fn limit_name(limit: Limit) -> &'static str {
    match limit {
        Limit::Ram => "--ram",
        Limit::P99 => "--p99",
        Limit::Life => "--life",
        Limit::Size => "its size",
    }
}

/// What would change the verdict.
fn changes(answer: &Answer) -> Vec<String> {
    let mut texts = Vec::new();
    for (limit, layer) in &answer.without {
        let waf = answer.offer(layer).map_or(0.0, |offer| offer.waf);
        let (limit, layer) = (limit_name(*limit), called(layer));
        texts.push(format!("Without {limit}: {layer}, {waf:.2} bytes."));
    }
    let verdict = answer.verdict.as_deref().and_then(|name| answer.offer(name));
    if let (Some(check), Some(offer)) = (&answer.compressed, verdict) {
        let turns = check.waf < offer.waf && check.layer != offer.layer;
        texts.push(format!(
            "Nothing is known of the data, so it is taken not to compress. At 2:1 {} programs \
             {:.2} bytes: {}. Measure yours and give it as TRACE:compress=RATIO.",
            check.layer,
            check.waf,
            if turns { "that would change the verdict" } else { "the verdict stays" }
        ));
    }
    texts.extend(states(answer));
    texts.extend(roomier(answer));
    texts
}

/// How the first two stand where there is more spare, the layer's or the drive's.
fn roomier(answer: &Answer) -> Option<String> {
    let roomier = answer.roomier.as_ref()?;
    let all = roomier.checks.iter().map(|it| format!("{} {:.2}", called(&it.layer), it.waf));
    let (texts, less) = (all.collect::<Vec<_>>().join("; "), bytes(roomier.exported_bytes));
    Some(format!("With {less} for the host (--export): {texts}."))
}

/// How the first two stand in other states of the drive.
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
            all.map(|check| format!("{} {:.2}", called(&check.layer), check.waf)).collect();
        format!("In the state {state}: {}.", texts.join("; "))
    };
    states.iter().map(of_state).collect()
}

/// How sure it is.
fn sure(answer: &Answer) -> Option<String> {
    let (least, most) = answer.ahead()?;
    let (next, seeds) = (called(answer.runner_up.as_ref()?), 1 + extra_seeds(answer));
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    if seeds == 1 {
        let more = percent(least);
        return Some(format!("How sure: {next} programs {more:+.1} %, with one seed (--seeds)."));
    }
    Some(if most - least < 1e-9 {
        format!(
            "How sure: {next} programs {:+.1} % with another seed too: nothing in these runs is \
             left to chance. Another recording of the same workload may say otherwise.",
            percent(least)
        )
    } else {
        format!(
            "How sure: {next} programs from {:+.1} % to {:+.1} % over {seeds} seeds{}.",
            percent(least),
            percent(most),
            if least > 1.0 { "" } else { ": which of the two is better is not sure" }
        )
    })
}

/// Seeds beside the first.
fn extra_seeds(answer: &Answer) -> usize {
    let verdict = answer.verdict.as_deref();
    let is_it = |layer: &str| Some(layer) == verdict;
    answer.checks.iter().filter(|it| it.state == answer.state && is_it(&it.layer)).count()
}
