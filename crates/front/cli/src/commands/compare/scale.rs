//! `--scale-to`: what the rows of slices mean for a drive of real size.

use hostftl_sim::{LayerChoice, Outcome, Row, Scaled, Study};
use serde_json::Value;

use super::report::{NOTHING, aligned, styled};
use super::verdict::title;
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, three_digits};

/// What each row of `outcome`, of `study`, means for a drive that exports `capacity` bytes.
pub(super) fn all(study: &Study, outcome: &Outcome, capacity: u64) -> Vec<Scaled> {
    let scaled = |row: &Row| {
        let drive = study.drives.iter().find(|drive| drive.name == row.drive);
        let is_its = |layer: &&LayerChoice| layer.name == row.layer;
        let layer = study.layers.iter().find(is_its);
        let (drive, layer) = drive.zip(layer).expect("a row is of the study");
        Scaled::of(row, drive, layer, capacity)
    };
    outcome.rows.iter().map(scaled).collect()
}

/// The rows as JSON, each with what it means as `scaled`.
///
/// # Errors
/// When a figure is not a number.
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

/// Prints a table, and what carries over and what does not.
///
/// # Errors
/// When nobody reads.
pub(super) fn print(rows: &[Row], scaled: &[Scaled], console: &mut Console) -> Result<(), Failure> {
    let Some(first) = scaled.first() else { return Ok(()) };
    let tb = first.capacity_bytes as f64 / 1e12;
    let mut table = styled();
    let heads =
        ["row", "TBW", "even wear", "DWPD, 5 y", "asked", "life", "alone", "memory", "a TB"];
    table.set_header(heads.iter().enumerate().map(|(at, head)| aligned(at == 0, (*head).into())));
    for (row, it) in rows.iter().zip(scaled) {
        let figure = |value: Option<f64>, unit: &str| {
            value.map_or(NOTHING.into(), |value| format!("{}{unit}", three_digits(value)))
        };
        let memory = |value: Option<u64>| value.map_or(NOTHING.into(), bytes);
        let cells = [
            title(row, rows),
            figure(it.tbw, " TB"),
            figure(it.tbw_even, " TB"),
            figure(it.dwpd, ""),
            figure(it.workload_dwpd, ""),
            it.years.map_or(NOTHING.into(), years),
            it.years_alone.map_or(NOTHING.into(), years),
            memory(it.memory_bytes),
            memory(it.memory_bytes_per_tb),
        ];
        table.add_row(cells.into_iter().enumerate().map(|(at, text)| aligned(at == 0, text)));
    }
    console.lines(format!("\nOn a drive of {} TB\n{table}\n", three_digits(tb)))?;
    about(rows, scaled).iter().try_for_each(|text| console.paragraph(text))
}

/// Years, or days where they are few.
pub(crate) fn years(value: f64) -> String {
    match value {
        ..0.1 => format!("{} d", three_digits(value * 365.25)),
        1000.0.. => "1000 y and more".to_owned(),
        _ => format!("{} y", three_digits(value)),
    }
}

/// What the columns mean, what carries over, and what to be careful about.
fn about(rows: &[Row], scaled: &[Scaled]) -> Vec<String> {
    let mut texts = vec![
        "TBW: what the host can write until the segment that was erased most is worn out, the \
         pessimistic estimate, and with even wear. DWPD, 5 y: drive writes a day that this allows \
         for five years; asked: what the workload asks for when all of the drive is as busy as \
         the slice. life: years until TBW is written then; alone: until that of even wear is \
         written when this workload is all that there is."
            .to_owned(),
        "What carries over: waf and what follows from it, as far as the workload touches the same \
         share of the drive, and the drive has the same share of spare; parameters in bytes are \
         as given. What does not: latencies and requests/s, for the slice has the dies of the \
         model; and the number of segments: more of them make collection cheaper, not dearer."
            .to_owned(),
    ];
    for (row, it) in rows.iter().zip(scaled) {
        texts.extend(it.impossible.iter().map(|why| format!("{}: {why}.", title(row, rows))));
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
