//! `--scale-to`: projection of the rows of a slice to a drive of real size.

use hostftl_report::{Page, Table};
use hostftl_sim::{HostLoad, LayerSpec, Outcome, Row, Scaled, Study};
use serde_json::Value;

use super::report::{NOTHING, aligned, styled};
use super::verdict::title;
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, three_digits};

/// Projects each row of `outcome`, of `study`, to a drive that exports `capacity` bytes and gets
/// `load`.
pub(super) fn all(
    study: &Study,
    outcome: &Outcome,
    (capacity, load): (u64, HostLoad),
) -> Vec<Scaled> {
    let scaled = |row: &Row| {
        let drive = study.drives.iter().find(|drive| drive.name == row.drive);
        let is_its = |layer: &&LayerSpec| layer.name == row.layer;
        let layer = study.layers.iter().find(is_its);
        let (drive, layer) = drive.zip(layer).expect("a row is of the study");
        Scaled::of(row, drive, layer, capacity, load)
    };
    outcome.rows.iter().map(scaled).collect()
}

/// Returns the rows as JSON, each with its projection in `scaled`.
pub(super) fn json(outcome: &Outcome, scaled: &[Scaled]) -> Result<Value, Failure> {
    let mut scaled = scaled.iter();
    let one = |one: Result<&Row, _>| match one {
        Ok(row) => {
            let mut value = serde_json::to_value(row)?;
            value["scaled"] = serde_json::to_value(scaled.next())?;
            Ok(value)
        }
        Err(hole) => serde_json::to_value(hole),
    };
    let all: Result<Vec<Value>, serde_json::Error> = outcome.each().map(one).collect();
    all.map(Value::Array).map_err(Failure::failed)
}

/// Column heads of the projections.
const HEADS: [&str; 6] = ["row", "life", "TBW", "DWPD, 5 y", "memory", "per TB"];

/// Returns the cells of a row's projection.
fn cells(row: &Row, it: &Scaled, rows: &[Row]) -> [String; 6] {
    let figure = |value: Option<f64>, unit: &str| {
        value.map_or(NOTHING.into(), |value| format!("{}{unit}", three_digits(value)))
    };
    let memory = |value: Option<u64>| value.map_or(NOTHING.into(), bytes);
    [
        title(row, rows),
        life((it.years, it.years_uneven)),
        figure(it.tbw, " TB"),
        figure(it.dwpd, ""),
        memory(it.memory_bytes),
        memory(it.memory_bytes_per_tb),
    ]
}

/// Returns the title of the projections: the drive and its load.
fn heading(first: &Scaled) -> String {
    let load = first.load_bytes_per_day.map_or_else(
        || "no load: the workload has no clock, and --load is not given".to_owned(),
        |load| {
            let dwpd = first.load_dwpd.unwrap_or(0.0);
            let dwpd = if dwpd < 0.1 { format!("{dwpd:.4}") } else { three_digits(dwpd) };
            format!("a load of {} GB/day, {dwpd} DWPD", three_digits(load / 1e9))
        },
    );
    format!("A drive of {} TB at {load}", three_digits(first.capacity_bytes as f64 / 1e12))
}

/// Prints the table of projections and its explanation.
pub(super) fn print(rows: &[Row], scaled: &[Scaled], console: &mut Console) -> Result<(), Failure> {
    let Some(first) = scaled.first() else { return Ok(()) };
    let mut table = styled();
    table.set_header(HEADS.iter().enumerate().map(|(at, head)| aligned(at == 0, (*head).into())));
    for (row, it) in rows.iter().zip(scaled) {
        let cells = cells(row, it, rows).into_iter().enumerate();
        table.add_row(cells.map(|(at, text)| aligned(at == 0, text)));
    }
    let (heading, table) = (heading(first), console.fit(table));
    console.lines(format!("\n{heading}\n{table}\n"))?;
    about(rows, scaled).iter().try_for_each(|text| console.paragraph(text))
}

/// Adds the projections and their explanation to a page.
pub(super) fn section(page: &mut Page, rows: &[Row], scaled: &[Scaled]) {
    let Some(first) = scaled.first() else { return };
    page.section(&heading(first));
    let mut table = Table::new(&HEADS);
    for (row, it) in rows.iter().zip(scaled) {
        table.row(cells(row, it, rows));
    }
    page.table(&table);
    about(rows, scaled).iter().for_each(|text| {
        page.paragraph(text);
    });
}

/// Formats a life in years, as a range if the life with uneven wear is known and shorter.
pub(crate) fn life((even, uneven): (Option<f64>, Option<f64>)) -> String {
    match (even, uneven) {
        (Some(even), Some(uneven)) if uneven < even => {
            format!("{} to {}", years(uneven), years(even))
        }
        (Some(even), _) => years(even),
        (None, _) => NOTHING.into(),
    }
}

/// Formats years; as days below 0.1 years.
fn years(value: f64) -> String {
    match value {
        ..0.1 => format!("{} d", three_digits(value * 365.25)),
        1000.0.. => "1000 y and more".to_owned(),
        _ => format!("{} y", three_digits(value)),
    }
}

/// Returns the explanation of the columns, the limits of the projection, and cautions.
fn about(rows: &[Row], scaled: &[Scaled]) -> Vec<String> {
    let mut texts = vec![
        "TBW is rated cycles × physical capacity / write amplification, and life is TBW at the \
         load; the capacity does not change the load. The lower end of a life is that of the \
         segment with the most erases; it is omitted if segments were erased fewer than 20 times \
         on average. DWPD is drive writes per day for five years."
            .to_owned(),
        "Write amplification is the same if the workload touches the same share of the drive, and \
        the drive has the same share of over-provisioning; parameters in bytes are as given. \
        Latencies and requests/s differ, because the slice has the dies of the model."
            .to_owned(),
    ];
    for (row, it) in rows.iter().zip(scaled) {
        let text = |why| format!("Impossible at this size: {}: {why}.", title(row, rows));
        texts.extend(it.impossible.iter().map(text));
    }
    let mut cautions: Vec<&String> = Vec::new();
    for caution in scaled.iter().flat_map(|it| &it.cautions) {
        if !cautions.contains(&caution) {
            cautions.push(caution);
        }
    }
    texts.extend(cautions.iter().map(|text| format!("Caution: {text}.")));
    texts
}
