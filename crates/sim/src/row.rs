//! A row of a comparison: what one layer cost on one workload.

use hostftl_core::{Cause, Layer, Nanos, SECTOR, SECTORS_PER_BLOCK};
use hostftl_drives::Model;
use serde::Serialize;

use crate::cell::Cell;
use crate::devices::{self, DeviceRow};
use crate::error::Violation;
use crate::front::Front;
use crate::latency::LatencyNs;
use crate::series::Interval;
use crate::warm::Warmed;
use crate::wear::{ByCause, Energy, Erases, Life};
use crate::work::Work;
use crate::world::World;

/// How long the drive was busy, in ns, by what it was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Busy {
    /// Reading for the host.
    pub read: Nanos,
    /// Writing what the host asked for.
    pub request: Nanos,
    /// The drive's read-modify-write and its own collection.
    pub copyback: Nanos,
    /// The layer's collection.
    pub vgc: Nanos,
    /// The layer's map log and checkpoints.
    pub map: Nanos,
    /// The layer's padding.
    pub padding: Nanos,
    /// The layer's parity.
    pub parity: Nanos,
    /// The layer's journal.
    pub journal: Nanos,
    /// The drive's own collection, which is a part of `copyback`.
    #[serde(skip)]
    pub drive_gc: Nanos,
}

impl Busy {
    /// All of it.
    pub fn total(&self) -> Nanos {
        let layer = self.vgc + self.map + self.padding + self.parity + self.journal;
        self.read + self.request + self.copyback + layer
    }
}

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

/// What a reader of the row should know of its workload and its devices, a sentence each.
fn remarks(cell: &Cell) -> Vec<String> {
    let mut texts = cell.load.remarks();
    for device in &cell.stack.devices {
        let about = device.left().iter().map(|text| format!("{}: {text}", device.name()));
        let fresh: Vec<String> = about.filter(|text| !texts.contains(text)).collect();
        texts.extend(fresh);
    }
    texts
}

/// Whether a trace of so many ns took so much longer that its rate was missed: a burst at the end
/// is not that.
fn is_missed(length: u64, took: u64) -> bool {
    length > 0 && took > length + length / 20
}

/// What a row is made from, besides the world itself.
pub struct Run<'a> {
    pub cell: &'a Cell<'a>,
    pub front: &'a Front,
    pub work: &'a Work,
    pub warmed: Warmed,
    pub start: Nanos,
    /// Whether a request came later than the trace says.
    pub was_held_back: bool,
    pub partial: bool,
}

impl Row {
    /// The row of a run that kept the laws.
    ///
    /// # Errors
    /// A figure that is not a number.
    pub fn new<L: Layer, D: Model>(run: &Run, world: &World<L, D>) -> Result<Self, Violation> {
        let (work, host, cell) = (run.work, run.front.totals(), run.cell);
        let bytes = |sectors: u64| sectors * SECTOR as u64;
        let sent = work.sent_in_all();
        let simulated = run.front.last_answer.saturating_sub(run.start);
        let map = [Cause::Map, Cause::Checkpoint, Cause::List].map(|cause| work.sent(cause));
        let map = map.iter().sum::<u64>();
        // Busy time, wear and energy are those of the stack, a journal's apart.
        let (specs, data) = (cell.layer.devices(cell.stack), cell.stack.devices.len());
        let main = work.part(0..data);
        let busy = main.busy();
        let (erases, life) = devices::wear(&specs[..data], &main, host.written_sectors);
        let row = Row {
            layer: cell.layer.name.clone(),
            ack: world.layer().limits().ack.name(),
            drive: cell.stack.name.clone(),
            workload: cell.workload.name.clone(),
            seed: cell.study.seed,
            parameters: cell.place.parameters(),
            grain: cell.place.load.grain.sectors(),
            command: cell.place.command(),
            partial: run.partial,
            warm: run.warmed.name(),
            warm_overwrites: run.warmed.overwrites,
            warm_rounds: run.warmed.rounds,
            requests: host.issued,
            widened: cell.load.notes.widened,
            exported_bytes: bytes(cell.exported),
            host_write_bytes: bytes(host.written_sectors),
            host_read_bytes: bytes(host.read_sectors),
            waf_layer: ratio(sent, host.written_sectors),
            waf_drive: ratio(work.programmed(), sent),
            waf_total: ratio(work.programmed(), host.written_sectors),
            gc_runs: work.counters.gc_runs,
            pages_copied: work.sent(Cause::Gc) / u64::from(SECTORS_PER_BLOCK),
            padding_bytes: bytes(work.sent(Cause::Pad)),
            parity_bytes: bytes(work.sent(Cause::Parity)),
            map_bytes_written: bytes(map),
            journal_bytes: bytes(work.sent(Cause::Journal)),
            flushes: host.flushes,
            busy_ns: busy,
            drive_gc_ns: busy.drive_gc,
            busy_ratio: None,
            base: None,
            latency_ns: run.front.latencies.figures(),
            iops: ratio(host.transfers, simulated).map(|per_ns| per_ns * 1e9),
            facts: world.layer().facts().into_iter().collect(),
            map_bytes: cell.plan.map_bytes,
            meta_bytes: cell.plan.meta_bytes,
            model_bytes: cell.memory(),
            rmw_units: work.drives.iter().map(|drive| drive.rmw).sum(),
            page_operations: main.page_operations(&specs[..data]),
            programmed_bytes: work.programmed_bytes(),
            devices: devices::rows(&specs, (cell.layer, data), work, host.written_sectors),
            life,
            energy: main.energy(&specs[..data], bytes(host.written_sectors + host.read_sectors)),
            series: run.front.series.intervals(run.front.last_answer, cell.dies()),
            erases,
            conserved: true,
            saturated: run.was_held_back && is_missed(cell.load.duration(), simulated),
            workload_ns: cell.load.duration(),
            simulated_ns: simulated,
            steps: world.steps(),
            remarks: remarks(cell),
            digest: format!("{:016x}", world.digest()),
        };
        row.numbers()
    }

    /// One of the layer's facts.
    pub fn fact(&self, name: &str) -> Option<u64> {
        self.facts.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Host memory that the layer takes, its buffers apart.
    pub fn layer_bytes(&self) -> u64 {
        self.map_bytes + self.meta_bytes
    }

    fn numbers(self) -> Result<Self, Violation> {
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

/// `one / other`, if there is something to divide by.
pub fn ratio(one: u64, other: u64) -> Option<f64> {
    (other > 0).then(|| one as f64 / other as f64)
}
