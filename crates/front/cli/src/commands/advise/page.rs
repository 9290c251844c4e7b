//! HTML page of an advice: the verdict, the wear of each layer in each condition, life, memory, and
//! charts of the layers that were examined in full.

use hostftl_frontend::advise::{Answer, Condition, Told};
use hostftl_frontend::judgement::{Judged, mark};
use hostftl_report::{Bars, Cell, Figure, Page, Table};
use hostftl_sim::Offer;

use super::text;
use crate::commands::compare::{NOTHING, charts, heat, life, times};
use crate::units::{bytes, nanos, three_digits};

/// Returns the page. `command` reproduces it.
pub(super) fn page(answer: &Answer, command: &str) -> String {
    let mut page = Page::new("Which layer, or none?");
    page.lead(&text::verdict(answer));
    if let Some(text) = answer.placement_text() {
        page.paragraph(&text);
    }
    page.paragraph(&text::question(answer)).contents();
    page.section("Wear by layer and condition");
    page.table(&conditions(answer)).paragraph(
        "Bytes programmed per host byte; ×: relative to no layer in the same condition. Green: \
         at least 3 % less wear; red: at least 3 % more, or a limit is exceeded.",
    );
    page.section("Wear, speed, latency and limits");
    page.table(&figures(answer)).paragraph(&text::words(answer));
    let capacity = text::size(answer.capacity_bytes as f64);
    let load = answer.load_bytes_per_day.map(text::size);
    let has_years =
        answer.offers.iter().filter_map(|it| it.offer.as_ref()).any(|it| it.years.is_some());
    match load.filter(|_| has_years) {
        Some(load) => {
            page.section(&format!("Life and host memory on {capacity} at {load}/day"));
            page.figures([years(answer), memory(answer)]);
        }
        None => {
            page.section(&format!("Host memory on {capacity}"));
            page.figures([memory(answer)]);
        }
    }
    page.section("Conditions and confidence");
    for text in text::about(answer) {
        page.paragraph(&text);
    }
    if !answer.rows.is_empty() {
        page.section("Details of the layers examined in full");
        page.folded("Work, latency and wear at 70 % of the rate without a layer", {
            charts::all(&answer.rows, &answer.rows)
        });
    }
    page.section("Reproduction");
    page.paragraph(&format!(
        "{}; the same command gives identical results on every machine.",
        hostftl_frontend::program::name()
    ));
    page.code(command);
    page.finish()
}

/// Returns the layers with figures: those that were examined in full first.
fn layers(answer: &Answer) -> Vec<(&Told, &Offer)> {
    let mut all: Vec<(&Told, &Offer)> =
        answer.offers.iter().filter_map(|told| Some((told, told.offer.as_ref()?))).collect();
    all.sort_by_key(|(_, offer)| offer.is_screened);
    all
}

/// Returns the judgement of an offer.
fn judged(answer: &Answer, (told, offer): (&Told, &Offer)) -> Judged {
    Judged::of(offer, answer.offer("passthrough"), told.broken.clone())
}

/// Returns the heat table of layers and conditions.
fn conditions(answer: &Answer) -> Table {
    let all = answer.conditions();
    let heads = ["layer"].into_iter().chain(all.iter().map(|it| it.name.as_str()));
    let mut table = Table::new(&heads.collect::<Vec<_>>());
    for (told, offer) in layers(answer) {
        let name = text::label(&told.name);
        let cell = |(at, condition): (usize, &Condition)| {
            let Some(waf) = condition.waf(&told.name) else { return NOTHING.into() };
            let Some(none) = condition.waf("passthrough") else {
                return Cell::from(format!("{waf:.2}"));
            };
            // Limits were judged in the first condition.
            let about = if at == 0 && offer.is_screened { "~" } else { "" };
            let is_refused = at == 0 && !told.broken.is_empty();
            let text = format!("{about}{waf:.2}  ×{:.2}", waf / none);
            let cell = Cell::ratio(text, waf / none, true);
            if is_refused { cell.refused() } else { cell }
        };
        table.row([Cell::from(name)].into_iter().chain(all.iter().enumerate().map(cell)));
        if answer.verdict.as_ref() == Some(&told.name) {
            table.strong();
        }
    }
    table
}

/// Returns the table of wear, speed, latency and limits.
fn figures(answer: &Answer) -> Table {
    let heads = ["layer", "wear", "speed", "latency", "requests/s", "p99", "life", "memory", ""];
    let mut table = Table::new(&heads);
    let both = (answer.verdict.as_deref(), answer.runner_up.as_deref());
    for (told, offer) in layers(answer) {
        let it = judged(answer, (told, offer));
        let relative = &it.relative;
        let rate = offer.requests_per_s.map_or(NOTHING.into(), three_digits);
        table.row([
            text::label(&told.name).into(),
            heat("wear", times(relative.wear), Some(&it)),
            heat("speed", times(relative.speed), Some(&it)),
            heat("latency", times(relative.latency), Some(&it)),
            rate.into(),
            offer.p99_ns.map_or(NOTHING.into(), nanos).into(),
            life((offer.years, offer.years_uneven)).into(),
            bytes(offer.memory_bytes).into(),
            mark(&told.broken, &told.name, both).into(),
        ]);
        if answer.verdict.as_ref() == Some(&told.name) {
            table.strong();
        }
    }
    for told in answer.offers.iter().filter(|it| it.offer.is_none()) {
        let name: Cell = told.name.as_str().into();
        let rest = (0..heads.len() - 2).map(|_| Cell::from(NOTHING));
        let last = Cell::from("not compared, see below");
        table.row([name].into_iter().chain(rest).chain([last]));
    }
    table
}

/// Returns the bars of a figure for each layer that has it.
fn bars(
    answer: &Answer,
    (title, show): (&str, fn(f64) -> String),
    figure: fn(&Offer) -> Option<f64>,
) -> Figure {
    let all = layers(answer).into_iter();
    let all = all.filter_map(|(told, offer)| Some((text::label(&told.name), figure(offer)?)));
    let (names, values): (Vec<String>, Vec<f64>) = all.unzip();
    Bars::new(title, &names, show).series(title, &values).figure()
}

fn years(answer: &Answer) -> Figure {
    let shortest =
        |offer: &Offer| offer.years.into_iter().chain(offer.years_uneven).reduce(f64::min);
    let show = |years: f64| life((Some(years), None));
    bars(answer, ("Time until the flash is worn out", show), shortest)
}

fn memory(answer: &Answer) -> Figure {
    let show = |value: f64| bytes(value as u64);
    bars(answer, ("Host memory of the layer, without its buffers", show), |offer| {
        Some(offer.memory_bytes as f64)
    })
}
