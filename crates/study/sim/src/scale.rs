//! Extrapolation of a row from a slice to a drive of real size.
//!
//! Ratios carry over: write amplification, and with it the bytes that can be written per byte of
//! capacity. This requires that slice and drive have the same share of over-provisioning, and that
//! the workload touches the same share of both. Rates do not carry over, because the slice has the
//! dies of the model. The load is an input and is not multiplied by the capacity.

use hostftl_core::SECTOR;
use serde::Serialize;

use crate::export::Export;
use crate::host_load::{DAY, HostLoad};
use crate::layer_spec::LayerSpec;
use crate::row::Row;
use crate::stack::Stack;

/// Days of a year.
const YEAR: f64 = 365.25;
/// Years for which vendors state drive writes per day.
const WARRANTY: f64 = 5.0;
/// Duration in seconds below which a workload may not represent the days of a year.
const LONG: f64 = DAY;

/// Figures of a row for a drive that exports `capacity_bytes`. They are `None` if the host wrote
/// nothing or the flash does not wear.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scaled {
    /// The exported capacity.
    pub capacity_bytes: u64,
    /// Bytes per day that the host writes; `None` without a clock and without a given load.
    pub load_bytes_per_day: Option<f64>,
    /// The load in drive writes per day.
    pub load_dwpd: Option<f64>,
    /// 10^12 bytes that the host can write: rated cycles × physical capacity / write amplification.
    pub tbw: Option<f64>,
    /// The same until the segment with the most erases is worn out; `None` if the run was too short
    /// to measure it.
    pub tbw_uneven: Option<f64>,
    /// Drive writes per day for five years, from `tbw`.
    pub dwpd: Option<f64>,
    /// Years until `tbw` is written at this load.
    pub years: Option<f64>,
    /// Years until `tbw_uneven` is written at this load.
    pub years_uneven: Option<f64>,
    /// Host memory of the layer on the drive, without its buffers.
    pub memory_bytes: Option<u64>,
    /// The same per 10^12 bytes of the drive.
    pub memory_bytes_per_tb: Option<u64>,
    /// Reason why the layer can't run on a drive of this size.
    pub impossible: Option<String>,
    /// Reasons to doubt the figures, one sentence each.
    pub cautions: Vec<String>,
}

impl Scaled {
    /// Extrapolates `row`, of `layer` on `stack`, to a drive that exports `bytes` for data under
    /// `load`.
    pub fn of(row: &Row, stack: &Stack, layer: &LayerSpec, bytes: u64, load: HostLoad) -> Self {
        let slice = (stack.sectors() * SECTOR as u64) as f64;
        let (factor, capacity) = (bytes as f64 / slice, bytes as f64);
        let grown = |tb: Option<f64>| tb.map(|tb| tb * factor);
        let tbw = grown(row.life.host_tb);
        let tbw_uneven = grown(row.life.host_tb_by_most_erased);
        let seconds = row.workload_ns as f64 / 1e9;
        let rate = (seconds > 0.0).then(|| row.host_write_bytes as f64 / seconds);
        let per_day = load.bytes_per_day(capacity, rate).filter(|bytes| *bytes > 0.0);
        let years = |tb: Option<f64>| Some(tb? * 1e12 / (per_day? * YEAR));
        let memory = if stack.is_raw() {
            // Proportional, because the geometry of a larger raw drive is unknown.
            Ok((row.layer_bytes() as f64 * factor) as u64)
        } else {
            memory(stack, &layer.suited(row.grain, stack.map_unit()), row, factor)
        };
        let impossible = memory.as_ref().err().cloned();
        let memory_bytes = memory.ok();
        Scaled {
            capacity_bytes: bytes,
            load_bytes_per_day: per_day,
            load_dwpd: per_day.map(|bytes| bytes / capacity),
            tbw,
            tbw_uneven,
            dwpd: tbw.map(|tb| tb * 1e12 / (capacity * WARRANTY * YEAR)),
            years: years(tbw),
            years_uneven: years(tbw_uneven),
            memory_bytes,
            memory_bytes_per_tb: memory_bytes.map(|it| (it as f64 * 1e12 / capacity) as u64),
            impossible,
            cautions: cautions(row, seconds, load),
        }
    }
}

/// Returns whether two layers are the same on `stack`, because a parameter of one has no effect
/// there.
pub fn is_same(stack: &Stack, export: Export, one: &LayerSpec, other: &LayerSpec) -> bool {
    let (infos, unit) = (stack.infos(), stack.map_unit());
    let about = |layer: &LayerSpec| {
        let layer = layer.suited(hostftl_core::SECTORS_PER_BLOCK, unit);
        layer.spared(&infos, unit, Some(export.sectors(stack, 0))).about(stack)
    };
    about(one) == about(other)
}

/// Checks whether `layer` can run on a stack whose devices are `factor` times as large as those of
/// `stack`, and exports the sectors of `export`.
///
/// # Errors
/// The reason why it can't.
pub fn runs_on(
    stack: &Stack,
    layer: &LayerSpec,
    export: Export,
    factor: f64,
) -> Result<(), String> {
    if stack.is_raw() {
        return Ok(());
    }
    let (infos, unit) = (stack.scaled(factor), stack.map_unit());
    let exported = (export.sectors(stack, 0) as f64 * factor) as u64;
    let layer = layer.suited(hostftl_core::SECTORS_PER_BLOCK, unit);
    let plan = layer.spared(&infos, unit, Some(exported)).plan(&infos, unit);
    plan.map(drop).map_err(|why| why.to_string())
}

/// Returns the memory in bytes of `layer`, the layer of `row`, on a stack whose devices are
/// `factor` times as large.
fn memory(stack: &Stack, layer: &LayerSpec, row: &Row, factor: f64) -> Result<u64, String> {
    let (infos, unit) = (stack.scaled(factor), stack.map_unit());
    let exported = row.exported_bytes as f64 / SECTOR as f64 * factor;
    let plan = layer.spared(&infos, unit, Some(exported as u64)).plan(&infos, unit);
    plan.map(|plan| plan.map_bytes + plan.meta_bytes).map_err(|why| why.to_string())
}

/// Returns the reasons to doubt the figures of a row.
fn cautions(row: &Row, seconds: f64, load: HostLoad) -> Vec<String> {
    let mut texts = Vec::new();
    let turns = row.host_write_bytes as f64 / row.exported_bytes.max(1) as f64;
    if turns < 1.0 {
        texts.push(format!(
            "the workload writes {turns:.2} times the exported capacity: too short to show the \
             cost of garbage collection, unless the initial state includes it"
        ));
    }
    if load.needs_clock() {
        match seconds {
            0.0 => texts.push(
                "the workload has no clock; use --load to state a rate, which years \
                 of life need"
                    .to_owned(),
            ),
            ..LONG => texts.push(format!(
                "the workload lasts {seconds:.0} s; years of life assume this rate every day; use \
                 --load to state another"
            )),
            _ => {}
        }
    }
    if row.saturated {
        texts.push("the drive could not keep up with the request times of the workload".to_owned());
    }
    if row.warm.starts_with("new") || row.warm.ends_with("(not reached)") {
        texts.push(format!(
            "initial state: {}; drives in use have a higher write amplification",
            row.warm
        ));
    }
    texts
}
