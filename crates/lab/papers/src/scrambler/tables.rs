//! Results as tables, a chart and text.

use hostftl_report::{Bars, Figure};

use super::bench::Measured;
use super::cases::REFERENCE;
use super::loads::Workload;
use super::{BySlot, FREE, Pair, THRESHOLDS, UTIL};
use crate::{Cell, Findings, Options, Sheet, traces};

fn number(value: f64, digits: usize) -> Cell {
    if value.is_finite() { Cell::Number(value, digits) } else { Cell::Nothing }
}

fn percent(value: Option<f64>) -> Cell {
    value.map_or(Cell::Nothing, |value| Cell::Text(format!("{value:+.0} %")))
}

fn copies(it: &Measured) -> f64 {
    it.gc_copies as f64
}

fn erases(it: &Measured) -> f64 {
    it.erases as f64
}

/// Returns the results compared with the reference model.
pub(super) fn reference(pairs: &[Pair]) -> Sheet {
    let title = "An independent model (512 MiB of data) and ours: time per request";
    let mut sheet = Sheet::new("reference", title)
        .words(["case"])
        .computed(["computed, no layer (us)"])
        .ours(["ours (us)"])
        .computed(["computed, scrambler (us)"])
        .ours(["ours (us)"])
        .computed(["computed, gain"])
        .ours(["ours, gain"])
        .difference("off")
        .computed(["computed, copies"])
        .ours(["ours, copies"])
        .computed(["computed, erases"])
        .ours(["ours, erases"]);
    for (case, pair) in REFERENCE.iter().zip(pairs) {
        let known = |value: Option<f64>| value.map_or(Cell::Nothing, |it| number(it, 0));
        sheet.row([
            case.name.into(),
            known(case.times[0]),
            number(pair.none.us(), 0),
            known(case.times[1]),
            number(pair.scrambled.us(), 0),
            number(case.gain, 2),
            number(pair.gain(), 2),
            Cell::off(case.gain, pair.gain()),
            percent(case.changes.map(|it| it[0])),
            percent(pair.change(copies)),
            percent(case.changes.map(|it| it[1])),
            percent(pair.change(erases)),
        ]);
    }
    sheet
}

/// Returns the results by the utilisation limit of a page.
pub(super) fn utilisation(less_full: &[Measured], whole: &Pair) -> Sheet {
    let title = "Fill limit of a page, at 20 % free and 4 KiB (not in the reference model)";
    let shares = UTIL.iter().map(|(share, _)| format!("{share:.2}")).chain(["1.00".to_owned()]);
    let all = less_full.iter().chain([&whole.scrambled]);
    varied("fill_limit", title, "util_max", shares.zip(all), whole)
}

/// Returns the results by the thresholds of rules 1 and 2.
pub(super) fn thresholds(measured: &[Measured], whole: &Pair) -> Sheet {
    let title = "Sufficient (rule 1) and enough (rule 2), at 20 % free and 4 KiB";
    let names = THRESHOLDS.iter().map(|(name, _)| (*name).to_owned());
    let all = names.zip(measured).chain([("both 0".to_owned(), &whole.scrambled)]);
    varied("thresholds", title, "threshold", all, whole)
}

/// Returns a table with a row for each of several scramblers on the drive of `whole`.
fn varied<'a>(
    name: &str,
    title: &str,
    head: &str,
    all: impl Iterator<Item = (String, &'a Measured)>,
    whole: &Pair,
) -> Sheet {
    let ours = ["us per request", "gain", "copied pages", "programs per request"];
    let mut sheet = Sheet::new(name, title).input([head]).ours(ours);
    for (name, it) in all {
        let pair = Pair { none: whole.none.clone(), scrambled: it.clone() };
        sheet.row([
            name.into(),
            number(it.us(), 0),
            number(pair.gain(), 2),
            percent(pair.change(copies)),
            number(it.programs as f64 / it.requests.max(1) as f64, 2),
        ]);
    }
    sheet
}

fn rows<'a>(
    loads: &'a [Workload],
    pairs: &'a [Pair],
) -> impl Iterator<Item = (String, &'a Pair)> + 'a {
    let names = loads.iter().flat_map(|load| FREE.map(|free| format!("{}, {free} %", load.name)));
    names.zip(pairs)
}

/// Returns the paper's grid: the changes by the scrambler.
pub(super) fn paper(loads: &[Workload], pairs: &[Pair]) -> Sheet {
    let ours = ["ours, write gain", "gc runs", "copied pages", "energy", "endurance", "read time"];
    let title = "The paper's workloads: effect of the scrambler, slots of 512 B";
    let sheet = Sheet::new("workload_gains", title).words(["workload, free"]);
    let sheet = sheet.published(["published, write gain"]);
    let mut sheet = sheet.ours(ours);
    for (name, pair) in rows(loads, pairs) {
        sheet.row([
            name.as_str().into(),
            if name.starts_with("src1_0") { "2.2 at most".into() } else { Cell::Nothing },
            number(pair.write_gain(), 2),
            percent(pair.change(erases)),
            percent(pair.change(copies)),
            percent(pair.change(|it| it.energy)),
            percent(longer(pair)),
            number(pair.read_penalty(), 2),
        ]);
    }
    sheet
}

/// Returns the results of writes by size, aligned and misaligned.
pub(super) fn sizes(by_slot: &[BySlot]) -> Sheet {
    let title = "src1_0: random writes, 20 % free, by alignment and slot";
    let ours = [
        "ours, write gain, 512 B",
        "copied pages",
        "gc runs",
        "ours, write gain, 4 KiB",
        "slot=auto chooses",
        "ours, write gain, auto",
    ];
    let mut sheet = Sheet::new("alignment", title).input(["size", "off by (sectors)"]).ours(ours);
    for of in by_slot {
        sheet.row([
            of.case.name.into(),
            Cell::Number(of.case.offset as f64, 0),
            number(of.lba.write_gain(), 2),
            percent(of.lba.change(copies)),
            percent(of.lba.change(erases)),
            number(of.block.write_gain(), 2),
            Cell::Text(format!("{} B", of.chosen * 512)),
            number(of.by_chosen().write_gain(), 2),
        ]);
    }
    sheet
}

/// Returns internal figures of the scrambler.
pub(super) fn inside(loads: &[Workload], pairs: &[Pair]) -> Sheet {
    let mut sheet = Sheet::new("rules", "Inside: shares of the rules, tables, throughput")
        .words(["workload, free"])
        .ours(["fresh", "preferred", "least used", "tables KiB", "write MB/s"]);
    for (name, pair) in rows(loads, pairs) {
        let it = &pair.scrambled;
        let all = it.rules.iter().sum::<u64>().max(1) as f64;
        let share = |rule: usize| percent_cell(it.rules[rule] as f64 / all);
        let throughput = it.written as f64 * 512.0 / 1e6 / (it.took as f64 / 1e9);
        sheet.row([
            name.into(),
            share(0),
            share(1),
            share(2),
            number(it.table_bytes as f64 / 1024.0, 0),
            number(throughput, 2),
        ]);
    }
    sheet
}

fn percent_cell(share: f64) -> Cell {
    Cell::Text(format!("{:.0} %", share * 100.0))
}

/// Returns a chart of the write gains.
pub(super) fn chart(loads: &[Workload], pairs: &[Pair]) -> Figure {
    let names: Vec<&str> = loads.iter().map(|load| load.name).collect();
    let mut bars =
        Bars::new("Write performance relative to no layer", &names, |it| format!("{it:.2}"));
    for (index, free) in FREE.iter().enumerate() {
        let of = |load: usize| pairs[load * FREE.len() + index].write_gain();
        let values: Vec<f64> = (0..loads.len()).map(of).collect();
        bars = bars.series(&format!("{free} % free"), &values);
    }
    bars.figure()
}

/// Adds the configuration and notes.
pub(super) fn settings(findings: &mut Findings, loads: &[Workload], options: &Options) {
    let setting = &mut findings.setting;
    setting.push(
        "The layer `scrambler`, the code that also serves volumes, including its map log, over a \
         drive with one chip: blocks of 256 pages of 16 KiB, read 85 us, program 1.6 ms, erase \
         8.5 ms, greedy garbage collection in step with host writes, addresses for 95 % of the \
         pages. Slots of one LBA (512 B) under the paper's workloads, of 4 KiB in the table of \
         the model; `slot=auto` takes the largest size from 512 B to 4 KiB of which 95 % of the \
         first 10,000 writes are whole multiples. One request at a time; the drive is first \
         filled and overwritten twice."
            .into(),
    );
    let scale = options.size.pick(
        "of two of the paper's workloads scaled to 1/256, but 256 MiB at least",
        "of the paper's workloads scaled to 1/16, but 256 MiB at least",
        "of the paper's workloads of the published size",
    );
    setting.push(format!("Data {scale}; flushes of traces left out."));
    let origin = |load: &Workload| {
        let mib = load.data / 2048;
        let what = format!("{}; {mib} MiB, {} requests timed", load.about, load.count);
        (load.name.to_owned(), load.origin, what)
    };
    if loads.iter().any(|load| load.given) {
        setting.push(traces::TOLD.into());
    }
    traces::tell(findings, loads.iter().map(origin));
    findings.notes.extend([
        "The reference model is an independent model of the specification, on synthetic input \
         with one seed. It collects in batches below 3 free blocks, ours in steps, a few copies \
         with each write. Our drive therefore reports the victim that follows the current one. A \
         second model does both. With a hint that is always new both gain the same: 1.59 in \
         batches and 1.60 in steps at 30 % free, and ours 1.58. With an old hint a drive that \
         collects in batches loses its gain (1.49 after 20 writes, 1.18 after 24, 0.88 after 32), \
         because the reported block was collected and its pages are elsewhere. In steps the age \
         of the hint has no effect up to 32 writes."
            .into(),
        "A write to a partly used page is one program for the drive, which reads the rest of the \
         page itself; the layer combines slots that are not adjacent."
            .into(),
        "Not shown: the 2.2 of src1_0 (Fig. 5). The paper gains by fewer collections and fewer \
         copies (Fig. 4). Our stand-in writes 16 KiB, and writes of whole aligned pages can gain \
         nothing, for any unit. If they are off by 31.5 KiB, as on servers of that time, which \
         started their first partition after 63 sectors (our inference), they gain 2.16 at 80 % \
         free. But nothing is collected there. The gain comes from spared read-modify-writes: such \
         a write touches two pages of the drive, and with the layer one page that was never \
         written before. The equal figure is therefore no evidence. The trace itself, src1_0.csv \
         in --traces, decides; with it the claim is listed."
            .into(),
        "No drive on the market reports the pages that it collects next. On FDP and ZNS drives the \
         layer `log` reaches the same goal: it decides itself which data shares a block."
            .into(),
        "The paper does not quantify its words `sufficient` and `enough`; here they are \
         parameters of those names. By default rule 1 takes an unwritten page while one exists; \
         rule 2 takes a preferred page while one has a free slot (`util` limits the fill of a \
         page), and queries the next GC victim of the drive every `refresh` pages."
            .into(),
        "Not stated by the paper but included here: a replaced slot is reused only after the map \
         log that records the replacement is durable."
            .into(),
    ]);
}

/// Returns the increase of the amount written until the blocks are worn out, in per cent; `None`
/// without erases.
fn longer(pair: &Pair) -> Option<f64> {
    let change = pair.change(erases).filter(|change| *change > -99.0);
    change.map(|change| 1e4 / (100.0 + change) - 100.0)
}
