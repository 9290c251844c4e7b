//! A row of a comparison: the costs of one layer under one workload.

use serde::Serialize;

use crate::devices::DeviceRow;
use crate::error::Violation;
use crate::latency::LatencyNs;
use crate::series::Interval;
use crate::wear::{ByCause, Energy, Erases, Life};
use crate::work::Busy;

/// Results of one combination. Ratios are `None` if the divisor is zero.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Layer with its parameters.
    pub layer: String,
    /// Point at which writes are acknowledged: `buffer` or `media`.
    pub ack: &'static str,
    /// Drive.
    pub drive: String,
    /// Workload as the user named it.
    pub workload: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// All parameters with their values.
    #[serde(serialize_with = "crate::outcome::as_map")]
    pub parameters: Vec<(String, String)>,
    /// Shell command that runs this combination alone.
    pub command: String,
    /// Whether the run was stopped before the end of the workload.
    pub partial: bool,
    /// State of the drive before the workload: `new`, `fill=70%`, `steady`, `self`. `(not reached)`
    /// is appended if write amplification did not settle.
    pub warm: String,
    /// Overwrites of the exported capacity during ageing.
    pub warm_overwrites: Option<f64>,
    /// Repetitions of the workload during ageing.
    pub warm_rounds: Option<u64>,
    /// Completed requests of the workload.
    pub requests: u64,
    /// Requests that were not whole sectors and were widened.
    pub widened: u64,
    /// Exported capacity, the same in all rows.
    pub exported_bytes: u64,
    /// Bytes written by the host.
    pub host_write_bytes: u64,
    /// Bytes read by the host.
    pub host_read_bytes: u64,
    /// Bytes sent to the devices per byte written by the host.
    pub waf_layer: Option<f64>,
    /// Bytes programmed in flash per byte sent to the devices.
    pub waf_drive: Option<f64>,
    /// Bytes programmed in flash per byte written by the host.
    pub waf_total: Option<f64>,
    /// Victims collected by the layer.
    pub gc_runs: u64,
    /// Pages of 4 KiB copied by the layer's garbage collection.
    pub pages_copied: u64,
    /// Padding written by the layer.
    pub padding_bytes: u64,
    /// Parity written by the layer.
    pub parity_bytes: u64,
    /// Map log, checkpoints and listings of lines written by the layer.
    pub map_bytes_written: u64,
    /// Bytes written to the layer's journal device.
    pub journal_bytes: u64,
    /// Flushes of the host.
    pub flushes: u64,
    /// Busy time of the drive by purpose.
    pub busy_ns: Busy,
    /// Busy time of the drive's own garbage collection in ns, which is included in
    /// `busy_ns.copyback`.
    pub drive_gc_ns: u64,
    /// Busy time relative to that of `base`.
    pub busy_ratio: Option<f64>,
    /// Baseline of `busy_ratio`: passthrough if it is in the comparison, or RAID 5 if passthrough
    /// can't run.
    pub base: Option<String>,
    /// Percentiles of the latency.
    pub latency_ns: LatencyNs,
    /// Reads and writes completed per second of simulated time.
    pub iops: Option<f64>,
    /// Host memory of the layer's map.
    pub map_bytes: u64,
    /// Host memory of the layer besides its map: counters, lists and queues.
    pub meta_bytes: u64,
    /// Host memory of the simulation of the row, including the layer's map.
    pub model_bytes: u64,
    /// Indirection units that the drive read, modified and programmed again.
    pub rmw_units: u64,
    /// NAND pages read and programmed.
    pub page_operations: u64,
    /// Bytes programmed in flash, by cause.
    pub programmed_bytes: ByCause,
    /// Results of each device; the journal is last.
    pub devices: Vec<DeviceRow>,
    /// Wear.
    pub erases: Erases,
    /// Amount of data that the host can write during the drive's life.
    pub life: Life,
    /// Energy of the flash.
    pub energy: Energy,
    /// Figures over time.
    pub series: Vec<Interval>,
    /// Whether every conservation law held. Rows without it are never shown.
    pub conserved: bool,
    /// Whether the trace's own rate was missed: requests were delayed because 256 were in progress,
    /// and the last completion was later than the end of the trace by more than 5 % of its length.
    /// Always false for a workload without a clock.
    pub saturated: bool,
    /// Duration of the workload by its own clock, in ns; 0 without a clock.
    pub workload_ns: u64,
    /// Duration of the run in simulated ns.
    pub simulated_ns: u64,
    /// Steps of the layer and its drive, including ageing: the amount of work of the simulation.
    pub steps: u64,
    /// Figures that only this kind of layer reports, at the end of the run.
    #[serde(skip)]
    pub facts: Vec<(&'static str, u64)>,
    /// Granularity of the workload's first writes, in sectors.
    #[serde(skip)]
    pub grain: u32,
    /// Remarks on the workload and the drive, one sentence each.
    pub remarks: Vec<String>,
    /// Digest of all actions of the layer and its drive, in hexadecimal.
    pub digest: String,
}

impl Row {
    /// Returns one of the layer's own figures.
    pub fn fact(&self, name: &str) -> Option<u64> {
        self.facts.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Returns the host memory of the layer without its buffers.
    pub fn layer_bytes(&self) -> u64 {
        self.map_bytes + self.meta_bytes
    }

    /// Refuses a row with a figure that is not a number.
    pub(crate) fn numbers(self) -> Result<Self, Violation> {
        let figures = [
            ("waf_layer", self.waf_layer),
            ("waf_drive", self.waf_drive),
            ("waf_total", self.waf_total),
            ("iops", self.iops),
            ("erases", Some(self.erases.mean)),
            ("life", self.life.host_tb),
            ("energy", self.energy.mj_per_host_gb),
        ];
        match figures.into_iter().find(|(_, figure)| figure.is_some_and(|it| !it.is_finite())) {
            Some((name, _)) => Err(Violation::NotANumber(name)),
            None => Ok(self),
        }
    }
}
