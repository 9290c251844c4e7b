//! What the row of a slice says of a drive of real size, and what it does not.
//!
//! Shares carry over: bytes programmed for each of the host's, and with them what can be written in
//! a life for each byte of capacity. They do as far as the slice has the drive's share of spare and
//! the workload touches the same share of it. Rates do not: the slice has the model's dies.

use hostftl_core::SECTOR;
use hostftl_layers::LayerKind;
use serde::Serialize;

use crate::choice::LayerChoice;
use crate::row::Row;
use crate::stack::Stack;

/// Seconds of a year, and of a day.
const YEAR: f64 = 365.25 * DAY;
const DAY: f64 = 86_400.0;
/// The years for which vendors state drive writes a day.
const WARRANTY: f64 = 5.0;
/// A workload of less than this many seconds says little of how much is written in years.
const LONG: f64 = DAY;

/// What a row means for a drive that exports so many bytes. Figures are `None` when nothing was
/// written or erased, or the workload has no clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scaled {
    /// What the drive exports.
    pub capacity_bytes: u64,
    /// 10^12 bytes that the host can write: until the segment that was erased most is worn out, if
    /// wear goes on as in the run; the pessimistic estimate.
    pub tbw: Option<f64>,
    /// The same with even wear.
    pub tbw_even: Option<f64>,
    /// Drive writes a day for five years, by `tbw`.
    pub dwpd: Option<f64>,
    /// Drive writes a day that the workload asks for when all of the drive is as busy as the slice.
    pub workload_dwpd: Option<f64>,
    /// Years until `tbw` is written when all of the drive is as busy as the slice.
    pub years: Option<f64>,
    /// Years until `tbw_even` is written when the workload is all that there is.
    pub years_alone: Option<f64>,
    /// Host memory that the layer takes on the drive, its buffers apart.
    pub memory_bytes: Option<u64>,
    /// The same for each 10^12 bytes of the drive.
    pub memory_bytes_per_tb: Option<u64>,
    /// Why the layer can't work on a drive of this size.
    pub impossible: Option<String>,
    /// What to be careful about, a sentence each.
    pub cautions: Vec<String>,
}

impl Scaled {
    /// What `row`, of `layer` on `stack`, means for one whose devices export `bytes` for data.
    pub fn of(row: &Row, stack: &Stack, layer: &LayerChoice, bytes: u64) -> Self {
        let slice = (stack.sectors() * SECTOR as u64) as f64;
        let factor = bytes as f64 / slice;
        let grown = |tb: Option<f64>| tb.map(|tb| tb * factor);
        let life = &row.life;
        let all = [life.host_tb, life.host_tb_by_erases, life.host_tb_by_most_erased];
        let least = all.into_iter().flatten().min_by(f64::total_cmp);
        let (tbw, tbw_even) = (grown(least), grown(life.host_tb));
        let seconds = row.workload_ns as f64 / 1e9;
        let rate = (seconds > 0.0 && row.host_write_bytes > 0)
            .then(|| row.host_write_bytes as f64 / seconds);
        let years = |tb: Option<f64>, rate: Option<f64>| Some(tb? * 1e12 / (rate? * YEAR));
        let memory = if stack.is_raw() {
            // By proportion: what a larger raw drive is made of is not known.
            Ok((row.layer_bytes() as f64 * factor) as u64)
        } else {
            memory(stack, &layer.suited(row.grain, stack.map_unit()), row, factor)
        };
        let impossible = memory.as_ref().err().cloned();
        let memory_bytes = memory.ok();
        Scaled {
            capacity_bytes: bytes,
            tbw,
            tbw_even,
            dwpd: tbw.map(|tb| tb * 1e12 / (bytes as f64 * WARRANTY * YEAR / DAY)),
            workload_dwpd: rate.map(|rate| rate * DAY / slice),
            years: years(tbw, rate.map(|rate| rate * factor)),
            years_alone: years(tbw_even, rate),
            memory_bytes,
            memory_bytes_per_tb: memory_bytes.map(|it| (it as f64 * 1e12 / bytes as f64) as u64),
            impossible,
            cautions: cautions(row, seconds),
        }
    }
}

/// Bytes of memory that `layer`, which made `row`, takes on a stack whose devices are so many times
/// as large.
fn memory(stack: &Stack, layer: &LayerChoice, row: &Row, factor: f64) -> Result<u64, String> {
    let (infos, unit) = (stack.scaled(factor), stack.map_unit());
    let exported = row.exported_bytes as f64 / SECTOR as f64 * factor;
    let plan = layer.spared(&infos, unit, Some(exported as u64)).plan(&infos, unit);
    let planned =
        plan.map(|plan| plan.map_bytes + plan.meta_bytes).map_err(|why| why.to_string())?;
    // What it does for the slice it does with as much memory for each byte of the drive: on a small
    // one its default is more than that.
    let grows = layer.kind() == Some(LayerKind::HatlAuto);
    Ok(if grows { planned.max((row.layer_bytes() as f64 * factor) as u64) } else { planned })
}

/// What makes the figures of a row doubtful.
fn cautions(row: &Row, seconds: f64) -> Vec<String> {
    let mut texts = Vec::new();
    let turns = row.host_write_bytes as f64 / row.exported_bytes.max(1) as f64;
    if turns < 1.0 {
        texts.push(format!(
            "the workload writes {turns:.2} times what is exported: too short to show what \
             collection costs, unless the state before did"
        ));
    }
    match seconds {
        0.0 => texts.push("the workload has no clock: nothing is said in years".to_owned()),
        ..LONG => texts.push(format!(
            "the workload lasts {seconds:.0} s: years take it that all days are {:.0} times that",
            DAY / seconds
        )),
        _ => {}
    }
    if row.saturated {
        texts.push("the slice could not follow the workload's times".to_owned());
    }
    if row.warm.starts_with("new") || row.warm.ends_with("(not reached)") {
        texts.push(format!("state before: {}; drives in use write more", row.warm));
    }
    texts
}
