//! A row of a comparison: what one layer cost on one workload.

use serde::Serialize;

use crate::devices::DeviceRow;
use crate::error::Violation;
use crate::latency::LatencyNs;
use crate::series::Interval;
use crate::wear::{ByCause, Energy, Erases, Life};
use crate::work::Busy;

/// One layer's result. Ratios are `None` when there is nothing to divide by.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The layer with its parameters.
    pub layer: String,
    /// When a write is answered: `buffer` or `media`.
    pub ack: &'static str,
    /// The drive.
    pub drive: String,
    /// The workload, as the user named it.
    pub workload: String,
    /// What fixed everything that is chosen at random.
    pub seed: u64,
    /// Everything that can be chosen, with the word that stands for it.
    #[serde(serialize_with = "crate::outcome::as_map")]
    pub parameters: Vec<(String, String)>,
    /// The command that makes the row alone again, for a shell.
    pub command: String,
    /// Whether the run was stopped before the workload's end.
    pub partial: bool,
    /// The state of the drive before: `new`, `fill=70%`, `steady`, `self`, with `(not reached)`
    /// behind it when write amplification did not settle.
    pub warm: String,
    /// How often the exported capacity was overwritten to age the drive.
    pub warm_overwrites: Option<f64>,
    /// How often the workload itself was repeated to age the drive.
    pub warm_rounds: Option<u64>,
    /// Requests of the workload that were answered.
    pub requests: u64,
    /// Requests that were not whole sectors and were widened.
    pub widened: u64,
    /// What the host could address, the same in all rows.
    pub exported_bytes: u64,
    /// What the host wrote.
    pub host_write_bytes: u64,
    /// What the host read.
    pub host_read_bytes: u64,
    /// Bytes sent to the device / bytes that the host wrote.
    pub waf_layer: Option<f64>,
    /// Bytes programmed in flash / bytes sent to the device.
    pub waf_drive: Option<f64>,
    /// Bytes programmed in flash / bytes that the host wrote.
    pub waf_total: Option<f64>,
    /// Victims that the layer collected.
    pub gc_runs: u64,
    /// Pages of 4 KiB that the layer's collection wrote again.
    pub pages_copied: u64,
    /// Padding that the layer wrote.
    pub padding_bytes: u64,
    /// Bytes of parity that the layer wrote.
    pub parity_bytes: u64,
    /// Map log, checkpoints and lists of lines that the layer wrote.
    pub map_bytes_written: u64,
    /// What the layer wrote to its journal's device.
    pub journal_bytes: u64,
    /// Flushes that the host sent.
    pub flushes: u64,
    /// How long the drive was busy, and for what.
    pub busy_ns: Busy,
    /// The drive's own collection, in ns; `busy_ns.copyback` has it too.
    pub drive_gc_ns: u64,
    /// Busy time relative to that of `base`.
    pub busy_ratio: Option<f64>,
    /// What it is relative to: passthrough when that is in the comparison, RAID 5 where passthrough
    /// can't be.
    pub base: Option<String>,
    /// Percentiles of the latency.
    pub latency_ns: LatencyNs,
    /// Reads and writes answered per second of simulated time.
    pub iops: Option<f64>,
    /// Host memory that the layer's map takes.
    pub map_bytes: u64,
    /// Host memory that the layer takes beside its map: counts, lists and queues.
    pub meta_bytes: u64,
    /// Host memory that the simulation of the row takes, the layer's map included.
    pub model_bytes: u64,
    /// Map units that the drive read, changed and programmed again.
    pub rmw_units: u64,
    /// NAND pages read and programmed.
    pub page_operations: u64,
    /// Bytes programmed in flash, by cause.
    pub programmed_bytes: ByCause,
    /// What each device did, the journal's last.
    pub devices: Vec<DeviceRow>,
    /// Wear.
    pub erases: Erases,
    /// What the host can write in the drive's life.
    pub life: Life,
    /// Energy of the flash.
    pub energy: Energy,
    /// What happened over time.
    pub series: Vec<Interval>,
    /// Whether every conservation law held; a row without it is never shown.
    pub conserved: bool,
    /// Whether the trace's own rate was missed: requests had to wait because 256 were under way,
    /// and the last was answered later than the trace's end by more than 5 % of the trace's
    /// length. Never so of a workload without a clock.
    pub saturated: bool,
    /// How long the workload takes by its own clock, in ns; 0 when it has none.
    pub workload_ns: u64,
    /// How long the workload took, in simulated ns.
    pub simulated_ns: u64,
    /// Steps of the layer and of its drive, ageing included: what the simulation itself had to do.
    pub steps: u64,
    /// What only this kind of layer tells of itself, at the end.
    #[serde(skip)]
    pub facts: Vec<(&'static str, u64)>,
    /// What the workload's first writes are whole multiples of, in sectors.
    #[serde(skip)]
    pub grain: u32,
    /// What was noticed about the workload and the drive, a sentence each.
    pub remarks: Vec<String>,
    /// One number for everything that the layer and its drive did, in hex.
    pub digest: String,
}

impl Row {
    /// One of the layer's facts.
    pub fn fact(&self, name: &str) -> Option<u64> {
        self.facts.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Host memory that the layer takes, its buffers apart.
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
