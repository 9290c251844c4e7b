//! Results as tables, charts and text.

use hostftl_report::{Axis, Bars, Figure, Lines};
use hostftl_sim::Row;

use super::claims::{are_given, beside_best};
use super::loads::Reference;
use super::replay::Parts;
use super::{Extent, LAYERS, Layers, MODELLED, Made, SCALE, SCALED, SEED, busy, model, of};
use crate::sheet::snake;
use crate::traces::{self, Origin, SHIPPED};
use crate::{Cell, Findings, Sheet};

/// Superpages of the hidden area, and the number of them that the layer's garbage collection keeps
/// free or in limbo.
pub(super) const HIDDEN: u32 = 128;
pub(super) const FREE: u32 = 16;
const ZEROS: &str = "gathering writes zeros for unmapped sectors";
const MAPPED: &str = "all written sectors were mapped before";

fn number(value: f64) -> Cell {
    if value.is_finite() { Cell::Number(value, 3) } else { Cell::Nothing }
}

/// Returns the names of the layers as column heads.
fn names(layers: &Layers) -> impl Iterator<Item = &'static str> + '_ {
    layers.iter().skip(1).map(|(layer, _)| *layer)
}

/// Returns the busy times at the published size.
pub(super) fn seed(made: &Made) -> Sheet {
    let title = "The seed's configuration: busy time relative to no layer, ours";
    let sheet = Sheet::new("busy_time", title).words(["workload"]).ours(names(&SEED));
    let mut sheet = sheet.input(["requests", "GiB written"]);
    for (name, rows) in &made.seed {
        let cells = rows[1..].iter().map(|row| number(busy(row)));
        let more = [
            Cell::Number(rows[0].requests as f64, 0),
            Cell::Number(rows[0].host_write_bytes as f64 / f64::from(1 << 30), 2),
        ];
        sheet.row([Cell::from(name.as_str())].into_iter().chain(cells).chain(more));
    }
    sheet
}

/// Returns the busy times compared with the reference model.
pub(super) fn reference(rows: &[(&Reference, Vec<Row>)]) -> Sheet {
    let title = "A small drive (2 GiB, 8192 leaves, 8 MiB hidden): an independent model and ours";
    let sheet = Sheet::new("reference", title).words(["workload", "layer"]);
    let sheet = sheet.computed(["computed"]);
    let mut sheet = sheet.ours(["ours"]).difference("off");
    for (case, rows) in rows {
        for (index, (layer, _)) in LAYERS.iter().enumerate().skip(1) {
            let ours = busy(&rows[index]);
            let known = case.busy.get(index - 1).copied();
            sheet.row([
                case.name.into(),
                (*layer).into(),
                known.map_or(Cell::Nothing, number),
                number(ours),
                known.map_or(Cell::Nothing, |known| Cell::off(known, ours)),
            ]);
        }
    }
    sheet
}

/// Returns the results of the reference model, unchanged and with one difference of HostFTL at a
/// time.
pub(super) fn model(rows: &[(&Reference, Vec<Row>)], open: &[model::Open]) -> Sheet {
    let title = "Cause of the difference: the model repeated with one change";
    let mut sheet = Sheet::new("model", title)
        .words(["workload", "layer"])
        .computed(["computed", "computed, again", "computed, changed"])
        .ours(["ours"])
        .words(["the change"]);
    for ((case, rows), open) in rows.iter().zip(open) {
        let blocks = 2 * case.stream.blocks;
        let shatl = |kept| case.stream.busy(&mut model::Shatl::new(HIDDEN, kept, blocks), MODELLED);
        let ([plain, zeros, mapped], ours) = (open.busy, busy(&rows[2]));
        let kept = kept(case, &rows[3]);
        let area = format!("{kept} of the {HIDDEN} hidden superpages hold no hidden data");
        let values = [
            ("mHATL", case.busy[1], [plain, zeros, ours], ZEROS),
            ("mHATL", case.busy[1], [plain, mapped, ours], MAPPED),
            ("sHATL", case.busy[2], [shatl(1), shatl(kept), busy(&rows[3])], &area),
        ];
        for (layer, reference, [model, changed, ours], change) in values {
            sheet.row([
                case.name.into(),
                layer.into(),
                number(reference),
                number(model),
                number(changed),
                number(ours),
                change.into(),
            ]);
        }
    }
    sheet
}

/// Returns the number of superpages of the hidden area without hidden data: the reserved ones, and
/// the share of the others that was used for log and padding.
fn kept(case: &Reference, row: &Row) -> u32 {
    let small = 100 - u64::from(case.stream.large);
    let data = row.requests * small / 100 * (model::WRITE_NS / u64::from(model::SLOTS));
    let log = row.busy_ns.map + row.busy_ns.padding;
    FREE + (u64::from(HIDDEN - FREE) * log / (log + data).max(1)) as u32
}

/// Returns the busy times by footprint.
pub(super) fn sweep(sweep: &[(u64, Vec<Row>)]) -> Sheet {
    let title =
        "Footprint sweep at a sixteenth of the seed's drive and memory, uniform 4 KiB writes";
    let mut sheet = Sheet::new("footprints", title)
        .input(["footprint", "at 32 GiB"])
        .ours(names(&SCALED))
        .ours(["mHATL's leaves"])
        .input(["its cap"])
        .words(["cap is"]);
    for (mib, rows) in sweep {
        let sizes = [format!("{mib} MiB"), format!("{} MiB", mib * SCALE)].map(Cell::from);
        let cells = rows[1..].iter().map(|row| number(busy(row)));
        sheet.row(sizes.into_iter().chain(cells).chain(guard_cells(&rows[2])));
    }
    sheet
}

/// Returns the final number of mHATL's leaves, its cap, and the state of its guard.
fn guard_cells(row: &Row) -> [Cell; 3] {
    let count = |name: &str| row.fact(name).map_or(Cell::Nothing, |it| Cell::Number(it as f64, 0));
    let says = match (row.fact("cap_exceeded"), row.fact("cap_is_tight")) {
        (Some(1), _) => "exceeded",
        (_, Some(1)) => "tight",
        _ => "kept",
    };
    [count("leaves"), count("leaf_cap"), says.into()]
}

/// Returns the busy times under random workloads, and those of `hatl-auto` relative to other
/// layers.
pub(super) fn drawn(drawn: &[(String, Vec<Row>)], seed: u64) -> Sheet {
    let title = format!("Workloads generated from seed {seed}: busy time relative to no layer");
    let more = ["auto / better of mHATL, sHATL", "auto / HARD"];
    let sheet = Sheet::new("generated", title).words(["workload"]);
    let mut sheet = sheet.ours(names(&LAYERS)).ours(more);
    for (text, rows) in drawn {
        let cells = rows[1..].iter().map(|row| number(busy(row)));
        let hard = busy(&rows[5]) / busy(&rows[1]);
        let more = [number(beside_best(rows)), number(hard)];
        sheet.row([Cell::from(text.to_owned())].into_iter().chain(cells).chain(more));
    }
    sheet
}

/// Returns the breakdown of the busy time of each layer, relative to the total without a layer.
pub(super) fn split(name: &str, rows: &[Row]) -> Sheet {
    let title = format!("{name}: busy time by cause, relative to the total without a layer");
    let ours = [
        "real_request",
        "copyback",
        "GC share",
        "vgc",
        "padding",
        "map",
        "reads",
        "all",
        "pad MiB",
        "map MiB",
        "map RAM KiB",
    ];
    let short = format!("causes_{}", snake(name));
    let mut sheet = Sheet::new(short, title).words(["layer"]).ours(ours);
    let base = rows[0].busy_ns.total().max(1) as f64;
    for ((layer, _), row) in SEED.iter().zip(rows) {
        let it = &row.busy_ns;
        let parts =
            [it.request, it.copyback, it.drive_gc, it.vgc, it.padding, it.map, it.read, it.total()];
        let parts = parts.map(|part| number(part as f64 / base));
        let mib = |bytes: u64| Cell::Number(bytes as f64 / f64::from(1 << 20), 1);
        let rest = [
            mib(row.padding_bytes),
            mib(row.map_bytes_written),
            Cell::Number(row.map_bytes as f64 / 1024.0, 0),
        ];
        sheet.row([Cell::from(*layer)].into_iter().chain(parts).chain(rest));
    }
    sheet
}

/// Adds the causes of the difference between HARD and sHATL under the shipped trace.
pub(super) fn add_parts(findings: &mut Findings, made: &Made) {
    let rows = made.real().iter().find(|(name, _)| name == SHIPPED).map(|(_, rows)| rows);
    let Some((rows, replayed)) = rows.zip(made.replayed.as_ref()) else { return };
    let computed = ["as described", "flushes close superpages", "and 16 are kept free"];
    let title = format!("{SHIPPED}: busy time of writes by cause, in s");
    let mut sheet = Sheet::new("causes_shatl_hard", title).words(["layer", "cause"]);
    sheet = sheet.computed(computed.map(|text| format!("computed, {text}"))).ours(["ours"]);
    for (layer, parts) in [("HARD", &replayed.hard), ("sHATL", &replayed.shatl)] {
        let ours = &of(rows, layer).busy_ns;
        type Part = fn(&Parts) -> f64;
        let causes: [(&str, Option<Part>, u64); 5] = [
            ("data of the host", Some(|it| it.request), ours.request),
            ("copyback", Some(|it| it.copyback), ours.copyback),
            ("moves home", Some(|it| it.vgc), ours.vgc),
            ("padding", Some(|it| it.padding), ours.padding),
            ("map log", None, ours.map),
        ];
        for (cause, part, ours) in causes {
            let computed = parts.map(|it| part.map_or(Cell::Nothing, |part| seconds(part(&it))));
            let cells = computed.into_iter().chain([seconds(ours as f64 / 1e3)]);
            sheet.row([layer.into(), cause.into()].into_iter().chain(cells));
        }
    }
    let writes = |layer| {
        let it = &of(rows, layer).busy_ns;
        (it.total() - it.read) as f64
    };
    let computed = [0, 1, 2].map(|at| number(replayed.shatl[at].all() / replayed.hard[at].all()));
    let ours = number(writes("sHATL") / writes("HARD"));
    let names = ["sHATL over HARD", "all of these"].map(Cell::from);
    sheet.row(names.into_iter().chain(computed).chain([ours]));
    findings.sheets.push(sheet);
    findings.notes.push(
        "Under the shipped trace the difference between sHATL and HARD is moves home, which the \
         description itself needs. If each flush closes a superpage, the model pads for 24.6 s. \
         Ours does so too with one request at a time (25.2 s); at the times of the trace several \
         flushes share a pad."
            .into(),
    );
}

fn seconds(us: f64) -> Cell {
    Cell::Number(us / 1e6, 2)
}

/// Returns a chart of the busy times at the published size.
pub(super) fn bars(made: &[(String, Vec<Row>)]) -> Figure {
    let names: Vec<&str> = made.iter().map(|(name, _)| name.as_str()).collect();
    let mut bars = Bars::new("Busy time relative to no layer", &names, |it| format!("{it:.2}"));
    for (index, (layer, _)) in SEED.iter().enumerate().skip(1) {
        let values: Vec<f64> = made.iter().map(|(_, rows)| busy(&rows[index])).collect();
        bars = bars.series(layer, &values);
    }
    bars.figure()
}

/// Returns a chart of the busy times by footprint.
pub(super) fn lines(sweep: &[(u64, Vec<Row>)]) -> Figure {
    let x = Axis::log("footprint, MiB", |it| format!("{it:.0}"));
    let y = Axis::linear("busy time relative to no layer", |it| format!("{it:.2}"));
    let mut lines = Lines::new("Footprint sweep on 2 GiB", x, y);
    for (index, (layer, _)) in SCALED.iter().enumerate().skip(1) {
        let points = sweep.iter().map(|(mib, rows)| (*mib as f64, busy(&rows[index])));
        lines = lines.series(layer, points.collect());
    }
    lines.figure()
}

/// Adds the origin of each workload at the published size.
pub(super) fn origins(findings: &mut Findings, made: &Made) {
    let real = made.real().iter().zip(&made.files).map(|((name, rows), file)| {
        let requests = rows[0].requests;
        let what = format!("{requests} requests of {file}, its own times, addresses packed");
        (name.clone(), Origin::of(name), what)
    });
    let generated = made.seed[made.real().len()..].iter().map(|(name, _)| {
        (
            name.clone(),
            Origin::Generated,
            "generated from the seed, as in the other tables".to_owned(),
        )
    });
    traces::tell(findings, real.chain(generated).collect::<Vec<_>>());
}

/// Adds the configuration and notes.
pub(super) fn settings(findings: &mut Findings, extent: &Extent, made: &Made) {
    let of = |layers: &Layers| layers.iter().map(|(_, text)| *text).collect::<Vec<_>>().join(",");
    let setting = &mut findings.setting;
    setting.push(if made.scaled {
        format!(
            "Scaled: drive, memory and footprints are a sixteenth of the seed's: drive `hatl-2g`, \
             new; layers {}; real traces are omitted. All rows export 80 % of the drive.",
            of(&SCALED)
        )
    } else {
        format!(
            "The seed's configuration: drive `hatl-32g` (32 GiB, superpages of 64 KiB in 4 \
             channels and 4 ways, read 60 us, program 800 us, erase 1.5 ms), new; layers {}. Real \
             traces with their own times, addresses packed; {} uniform writes, queue depth 16. \
             All rows export 80 % of the drive.",
            of(&SEED),
            extent.uniform.unwrap_or_default()
        )
    });
    if are_given(made.real()) {
        setting.push(traces::TOLD.into());
    }
    if made.real().is_empty() && !made.scaled {
        let text = "No real trace: run the command in a directory whose ./traces contains \
                    mariadb-oltp-head.csv.zst, or state the folder with --traces.";
        setting.push(text.into());
    }
    setting.push(format!(
        "Sweep: scaled to a sixteenth in drive, memory and footprint: `hatl-2g`, layers {}; {} \
         writes.",
        of(&SCALED),
        extent.swept
    ));
    setting.push(format!(
        "The small drive: `hatl-2g`, layers {}; {MODELLED} writes at every size, the number of \
         the model, queue depth 16. Ten times that number overwrite the drive four times. The \
         drive then collects garbage, which no model here does, and HARD's 90 % of writes to 5 % \
         cost 0.283 instead of 0.055, of which 0.223 are copies by the drive. Its footprints are \
         not scaled with its memory, so it does not test the seed's claims.",
        of(&LAYERS)
    ));
    findings.notes.extend([
        "real_request, copyback and vgc are the seed's three parts; padding and map are the cost \
         of durability, which the seed omits."
            .into(),
        "mHATL gathers the data of the logical superpages of a victim; `mHATL, VSP` gathers only \
         the data of the victim, which follows the text of the seed literally."
            .into(),
        "A map of 256 KiB can't cover a drive of 32 GB: one leaf of 4 bytes per superpage is 2 \
         MiB. The limit holds while the footprint is small; above it mHATL writes whole \
         superpages instead of thrashing."
            .into(),
        "The repeated model agrees with sHATL's model within 5 % in all four workloads. The \
         hidden area of ours also contains log, padding, and superpages that are free or in \
         limbo. Their number is counted in our rows, not fitted, and the model without this \
         number of superpages comes near ours. Their effect grows as the area shrinks."
            .into(),
        "The drives are new. On a full drive HARD loses, because it writes to the whole device \
         and the drive's own garbage collection copies data that HARD has not yet found invalid: \
         `hostftl compare TRACE --drive hatl-2g --layers none,hard --warm new,steady` shows both."
            .into(),
    ]);
}
