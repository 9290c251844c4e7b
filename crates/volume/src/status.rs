//! The figures of a volume, for people and for scripts.

use std::path::Path;

use hostftl_core::{Cause, SECTOR};
use hostftl_io::{Driver, Snapshot};
use hostftl_layers::{AnyLayer, LayerConfig, Plan};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::control;
use crate::error::Error;
use crate::open::open;
use crate::quiet::Quiet;

/// See the module text. Lengths are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct Status {
    pub volume: String,
    pub uuid: String,
    pub label: String,
    pub layer: String,
    /// The layer with its parameters, as `create --layer` takes it.
    pub parameters: String,
    /// The process that serves the volume; none when it is not served.
    pub served_by: Option<u32>,
    /// When a write is answered: `buffer` or `media`.
    pub ack: String,
    pub exported_bytes: u64,
    pub device_bytes: u64,
    pub map_bytes: u64,
    pub superpage_bytes: u32,
    pub spare_permille: u32,
    /// `io_uring` or `pread`; empty when the volume is not served.
    pub engine: String,
    pub devices: Vec<DeviceStatus>,
    /// Since the volume was started; none when it is not served.
    pub traffic: Option<Traffic>,
    pub notes: Vec<String>,
}

/// One device of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct DeviceStatus {
    pub name: String,
    /// `file`, `block device`, `memory` or `NBD export`.
    pub kind: String,
    pub bytes: u64,
    /// Whether transfers go past the page cache.
    pub direct: bool,
    /// Why they do not.
    pub why_not_direct: Option<String>,
    pub errors: u64,
    /// How often the connection to a server was made again; none without a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconnects: Option<u64>,
    /// What is wrong with that connection now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// What went through a volume since it was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct Traffic {
    pub requests_in: u64,
    pub requests_out: u64,
    pub requests_failed: u64,
    pub host_read_bytes: u64,
    pub host_write_bytes: u64,
    pub host_trim_bytes: u64,
    pub flushes: u64,
    pub sent_bytes: Sent,
    /// Bytes sent to the devices over bytes that the host wrote; none before it wrote any.
    pub waf_layer: Option<f64>,
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
}

/// The part of a status that does not change while a volume is served.
pub(crate) type Still = Status;

impl Status {
    /// A volume that is not served.
    fn at_rest(path: &Path, config: &Config, layer: &LayerConfig, plan: &Plan) -> Self {
        Status {
            volume: path.display().to_string(),
            uuid: config.uuid.to_string(),
            label: config.label.clone(),
            layer: layer.kind.name().into(),
            parameters: config.layer.clone(),
            ack: plan.limits.ack.name().into(),
            exported_bytes: plan.limits.exported * SECTOR as u64,
            map_bytes: plan.map_bytes,
            superpage_bytes: layer.superpage * SECTOR as u32,
            spare_permille: layer.spare_permille,
            ..Status::default()
        }
    }

    fn set_devices(&mut self, devices: &[hostftl_io::Device]) {
        self.device_bytes = devices.iter().map(|device| device.bytes()).sum();
        self.devices = devices.iter().map(device_status).collect();
    }

    /// A volume that is being served by this process.
    pub(crate) fn of_running(
        path: &Path,
        config: &Config,
        layer: &LayerConfig,
        plan: &Plan,
        driver: &Driver<AnyLayer>,
    ) -> Self {
        let mut status = Self::at_rest(path, config, layer, plan);
        status.set_devices(driver.devices());
        status.served_by = Some(std::process::id());
        status.engine = driver.engine().0.into();
        status
    }

    /// With what changed since.
    pub(crate) fn with(&self, snapshot: &Snapshot, news: &Quiet) -> Self {
        let mut status = self.clone();
        status.map_bytes = snapshot.map_bytes;
        status.notes.extend(news.troubles.iter().cloned());
        for (device, errors) in status.devices.iter_mut().zip(&snapshot.stats.errors) {
            device.errors = *errors;
        }
        status.traffic = Some(traffic(snapshot, news));
        status
    }
}

fn device_status(device: &hostftl_io::Device) -> DeviceStatus {
    let why_not_direct = match device.direct() {
        hostftl_io::Direct::Yes => None,
        hostftl_io::Direct::No(why) => Some((*why).into()),
    };
    DeviceStatus {
        name: device.name().into(),
        kind: device.backing().name().into(),
        bytes: device.bytes(),
        direct: why_not_direct.is_none(),
        why_not_direct,
        errors: 0,
        reconnects: None,
        trouble: None,
    }
}

fn traffic(snapshot: &Snapshot, news: &Quiet) -> Traffic {
    let Snapshot { stats, counters, .. } = snapshot;
    let bytes = |sectors: u64| sectors * SECTOR as u64;
    let sent = |cause: Cause| bytes(stats.sent[cause as usize]);
    let (host, total) = (bytes(counters.host_written), bytes(stats.sent_sectors()));
    Traffic {
        requests_in: stats.requests_in,
        requests_out: stats.requests_out,
        requests_failed: stats.requests_failed,
        host_read_bytes: bytes(counters.host_read),
        host_write_bytes: host,
        host_trim_bytes: bytes(counters.host_trimmed),
        flushes: counters.flushes,
        sent_bytes: Sent {
            total,
            host: sent(Cause::Host),
            gc: sent(Cause::Gc),
            pad: sent(Cause::Pad),
            map: sent(Cause::Map),
            checkpoint: sent(Cause::Checkpoint),
            rmw: sent(Cause::Rmw),
        },
        waf_layer: (host > 0).then(|| total as f64 / host as f64),
        device_read_bytes: bytes(stats.read),
        device_reset_bytes: bytes(stats.reset),
        device_flushes: stats.flushes,
        gc_runs: counters.gc_runs,
        gc_copied_bytes: bytes(counters.gc_copied),
        device_errors: counters.device_errors,
        log_writes_replayed: news.replayed,
        log_writes_dropped: news.dropped,
    }
}

/// The status of a volume: from the process that serves it, or else from its devices.
///
/// # Errors
/// When there is no such volume, or somebody else holds it without serving it.
pub fn status(path: &Path) -> Result<Status, Error> {
    let config = Config::load(path)?;
    if let Some(status) = control::ask(config.uuid) {
        return Ok(status);
    }
    let volume = open(path)?;
    let mut status = Status::at_rest(path, &config, &volume.layer, &volume.plan);
    status.set_devices(&volume.devices);
    status.notes = volume.notes;
    Ok(status)
}
