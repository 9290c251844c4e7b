//! Traffic of a volume, and its amplification on the way to the flash.

use hostftl_core::{Cause, SECTOR};
use hostftl_io::Snapshot;
use serde::{Deserialize, Serialize};

use crate::open::event_host::EventHost;

/// Traffic of a volume since it was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct Traffic {
    pub requests_received: u64,
    pub requests_answered: u64,
    pub requests_failed: u64,
    pub host_read_bytes: u64,
    pub host_write_bytes: u64,
    pub host_trim_bytes: u64,
    pub flushes: u64,
    pub device_write_bytes: Sent,
    /// Bytes sent to the devices per byte written by the host; `None` before the first write.
    pub waf_layer: Option<f64>,
    /// Steps from the host's writes to the flash.
    #[serde(default)]
    pub write_path: Vec<WafStep>,
    pub device_read_bytes: u64,
    pub device_reset_bytes: u64,
    pub device_flushes: u64,
    pub gc_runs: u64,
    pub gc_copied_bytes: u64,
    pub device_errors: u64,
    pub log_writes_replayed: u64,
    pub log_writes_dropped: u64,
}

/// Bytes written to the devices, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct Sent {
    pub total: u64,
    pub host: u64,
    pub gc: u64,
    pub pad: u64,
    pub map: u64,
    pub checkpoint: u64,
    pub rmw: u64,
    #[serde(default)]
    pub parity: u64,
    #[serde(default)]
    pub list: u64,
    #[serde(default)]
    pub journal: u64,
}

/// One step on the way from the host to the flash.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct WafStep {
    pub step: String,
    /// Bytes; `None` if unknown.
    pub bytes: Option<u64>,
    /// Bytes per byte written by the host; `None` before the first write.
    pub per_host_byte: Option<f64>,
}

/// Last step.
const FLASH: &str = "flash";

impl Traffic {
    /// Sets the bytes that the drives wrote to their flash; `None` if a drive does not count them.
    pub(crate) fn set_flash(&mut self, bytes: Option<u64>) {
        let host = self.host_write_bytes;
        for step in self.write_path.iter_mut().filter(|step| step.step == FLASH) {
            step.bytes = bytes;
            step.per_host_byte = bytes.filter(|_| host > 0).map(|bytes| bytes as f64 / host as f64);
        }
    }

    /// Returns the figures of a driver and of recovery.
    pub(crate) fn new(snapshot: &Snapshot, event_host: &EventHost) -> Self {
        let Snapshot { stats, counters, .. } = snapshot;
        let bytes = |sectors: u64| sectors * SECTOR as u64;
        let sent = |cause: Cause| bytes(stats.sent[cause as usize]);
        let (host, total) = (bytes(counters.host_written), bytes(stats.sent_sectors()));
        Traffic {
            requests_received: stats.requests_in,
            requests_answered: stats.requests_out,
            requests_failed: stats.requests_failed,
            host_read_bytes: bytes(counters.host_read),
            host_write_bytes: host,
            host_trim_bytes: bytes(counters.host_trimmed),
            flushes: counters.flushes,
            device_write_bytes: Sent {
                total,
                host: sent(Cause::Host),
                gc: sent(Cause::Gc),
                pad: sent(Cause::Pad),
                map: sent(Cause::Map),
                checkpoint: sent(Cause::Checkpoint),
                rmw: sent(Cause::Rmw),
                parity: sent(Cause::Parity),
                list: sent(Cause::List),
                journal: sent(Cause::Journal),
            },
            write_path: write_path(snapshot),
            waf_layer: (host > 0).then(|| total as f64 / host as f64),
            device_read_bytes: bytes(stats.read),
            device_reset_bytes: bytes(stats.reset),
            device_flushes: stats.flushes,
            gc_runs: counters.gc_runs,
            gc_copied_bytes: bytes(counters.gc_copied),
            device_errors: counters.device_errors,
            log_writes_replayed: event_host.replayed,
            log_writes_dropped: event_host.dropped,
        }
    }
}

/// Returns the steps from the host's writes to the flash. The parts add up to the bytes sent. Only
/// the drive knows its writes to flash ([`Traffic::set_flash`]).
fn write_path(snapshot: &Snapshot) -> Vec<WafStep> {
    let Snapshot { stats, counters, gauges, .. } = snapshot;
    let bytes = |sectors: u64| Some(sectors * SECTOR as u64);
    let sent = |cause: Cause| stats.sent[cause as usize];
    let steps = [
        ("host", bytes(counters.host_written)),
        ("compressed", gauges.map(|gauges| gauges.packed_into)),
        ("journal", bytes(sent(Cause::Journal))),
        ("data", bytes(sent(Cause::Host))),
        ("padding", bytes(sent(Cause::Pad))),
        ("metadata", bytes(sent(Cause::Map) + sent(Cause::Checkpoint) + sent(Cause::List))),
        ("garbage_collection", bytes(sent(Cause::Gc))),
        ("read_modify_write", bytes(sent(Cause::Rmw))),
        ("parity", bytes(sent(Cause::Parity))),
        ("device_writes", bytes(stats.sent_sectors())),
        // Only the drives know these bytes.
        (FLASH, None),
    ];
    let host = counters.host_written * SECTOR as u64;
    let step = |(step, bytes): (&str, Option<u64>)| WafStep {
        step: step.into(),
        bytes,
        per_host_byte: bytes.filter(|_| host > 0).map(|bytes| bytes as f64 / host as f64),
    };
    steps.into_iter().map(step).collect()
}
