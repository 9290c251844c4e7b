//! Status of a volume: state, devices, space, tasks and traffic.

pub(crate) mod drive;
pub(crate) mod health;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod shadow;
pub(crate) mod space;
pub(crate) mod tasks;
pub(crate) mod traffic;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hostftl_core::{DeviceSet, MemberRole, SECTOR};
use hostftl_io::{Driver, Snapshot};
use hostftl_layers::{AnyLayer, LayerConfig, Plan};
use serde::{Deserialize, Serialize};

use crate::metadata::config::{self, Config};
use crate::metadata::journal;
use crate::open::event_host::EventHost;
use crate::open::names::Names;
use crate::open::options::{Acks, StartOptions};
use crate::open::refusal::degraded::{EXCLUDED, redundancy_note, spare_is_missing, without};
use crate::running::front::job::Export;
use crate::running::status::drive::DriveStatus;
use crate::running::status::latency::{Latencies, Latency};
use crate::running::status::memory::Memory;
use crate::running::status::shadow::ShadowStatus;
use crate::running::status::space::Space;
use crate::running::status::tasks::TaskStatus;
use crate::running::status::traffic::Traffic;

/// Maximum number of unreadable ranges listed in a note.
const NAMED: usize = 16;

/// Version of the JSON names and their meaning; grows when one is removed or changes.
const SCHEMA: u32 = 1;

/// State of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeState {
    /// All devices are present and all data has its redundancy.
    #[default]
    Online,
    /// A device is absent, or data lacks redundancy, and no rebuild is running.
    Degraded,
    /// As `Degraded`, while a rebuild or a resilver is running.
    Rebuilding,
    /// Writes fail, or some data is unreadable.
    Faulted,
}

impl fmt::Display for VolumeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            VolumeState::Online => "ONLINE",
            VolumeState::Degraded => "DEGRADED",
            VolumeState::Rebuilding => "REBUILDING",
            VolumeState::Faulted => "FAULTED",
        })
    }
}

/// Status of a volume, as `hostftl status --json` prints it. Lengths are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct Status {
    /// Version of the JSON names: `SCHEMA`.
    #[serde(default)]
    pub schema: u32,
    pub volume: String,
    #[serde(default)]
    pub state: VolumeState,
    /// Volume file in use; absent when the volume is not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<VolumeFile>,
    pub uuid: String,
    pub label: String,
    pub layer: String,
    /// Layer with its parameters, in the syntax of `create --layer`.
    pub parameters: String,
    /// Process that serves the volume; absent when it is not served.
    pub served_by: Option<u32>,
    /// Point at which writes are acknowledged: `buffer`, `media`, `memfd` (`serve --ack memfd`) or
    /// `durable` (`serve --ack media`).
    pub ack: String,
    /// Export name while the volume is served.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub export: String,
    /// Whether the previous run (the last run of an unserved volume) ended without a clean stop.
    #[serde(default)]
    pub unclean_shutdown: bool,
    /// Protection of the serving process against memory pressure, one line for each measure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protection: Vec<String>,
    /// Whether the volume is served read-only.
    #[serde(default)]
    pub read_only: bool,
    /// Whether the plain export name is refused after an unclean shutdown.
    #[serde(default)]
    pub export_refused: bool,
    pub exported_bytes: u64,
    /// Total size of the devices, except the journal.
    pub device_bytes: u64,
    pub superpage_bytes: u32,
    pub overprovisioning_permille: u32,
    /// I/O engine: `io_uring` or `pread`; empty when the volume is not served.
    pub engine: String,
    pub devices: Vec<DeviceStatus>,
    /// Whether a device is missing, lost or faulted.
    #[serde(default)]
    pub degraded: bool,
    /// Unreadable ranges (offset, length) whose only copy is on a lost device.
    #[serde(default)]
    pub lost_ranges: Vec<(u64, u64)>,
    /// Space accounting; absent when the layer has none or the volume is not served.
    #[serde(default)]
    pub space: Option<Space>,
    /// Background tasks, running or paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskStatus>,
    /// Further counters of the layer, by name.
    #[serde(default)]
    pub layer_state: BTreeMap<String, u64>,
    /// Memory of the serving process.
    #[serde(default)]
    pub memory: Memory,
    /// Traffic since the start; absent when the volume is not served.
    pub traffic: Option<Traffic>,
    /// Figures of the shadow; absent without `serve --shadow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowStatus>,
    /// Latencies since the start, one entry for each kind of request.
    #[serde(default)]
    pub latencies: Vec<Latency>,
    /// Number of events since the start, by kind.
    #[serde(default)]
    pub events: BTreeMap<String, u64>,
    /// Problems that need an operator, each with the next step; empty when there are none.
    #[serde(default)]
    pub problems: Vec<String>,
    pub notes: Vec<String>,
}

/// Identity of a volume file, which distinguishes it from copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeFile {
    /// Absolute path without symbolic links.
    pub path: String,
    /// Device number of its file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

impl VolumeFile {
    /// Returns the identity of the file at `path`, or `None` if the file does not exist.
    pub(crate) fn new(path: &Path) -> Option<Self> {
        let (full, found) = (fs::canonicalize(path).ok()?, fs::metadata(path).ok()?);
        let path = full.display().to_string();
        Some(VolumeFile { path, device: found.dev(), inode: found.ino() })
    }

    /// Returns whether both are the same inode or have the same path.
    pub(crate) fn is(&self, other: &VolumeFile) -> bool {
        let one = (self.device, self.inode) == (other.device, other.inode);
        one || self.path == other.path
    }
}

/// One device of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct DeviceStatus {
    /// Member number, as used in commands and events.
    #[serde(default)]
    pub number: u8,
    /// Empty for a volume in memory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    pub name: String,
    /// `file`, `block device`, `memory` or `NBD export`.
    pub kind: String,
    /// `journal`, `spare`, or empty for a data device.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    pub bytes: u64,
    /// Target of a running copy, which replaces this device when complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    /// Whether transfers bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Reason for buffered transfers.
    pub buffered_reason: Option<String>,
    /// `online`, `errors` (commands failed), `failing` (reads repeatedly fail or mismatch),
    /// `faulted` (excluded for that), `lost` (excluded for another reason), `missing` or `removed`.
    #[serde(default)]
    pub health: String,
    #[serde(default)]
    pub written_bytes: u64,
    #[serde(default)]
    pub read_bytes: u64,
    pub errors: u64,
    /// Number of reconnections to the NBD server; absent for local devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconnects: Option<u64>,
    /// Current error of that connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_error: Option<String>,
    /// SMART and identity data; absent for devices without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveStatus>,
}

impl Status {
    /// Returns the status of a volume that is not served.
    pub(crate) fn at_rest(path: &Path, config: &Config, layer: &LayerConfig, plan: &Plan) -> Self {
        Status {
            schema: SCHEMA,
            volume: path.display().to_string(),
            uuid: config.uuid.to_string(),
            label: config.label.clone(),
            layer: layer.kind.name().into(),
            parameters: layer.to_text(),
            ack: plan.limits.ack.name().into(),
            exported_bytes: plan.limits.exported * SECTOR as u64,
            memory: Memory::from_plan(plan),
            superpage_bytes: layer.superpage * SECTOR as u32,
            overprovisioning_permille: layer.spare_permille,
            ..Status::default()
        }
    }

    pub(crate) fn set_devices(
        &mut self,
        devices: &[hostftl_io::Device],
        layer: &LayerConfig,
        config: &Config,
    ) {
        let others = journal::others(layer, devices);
        self.device_bytes = others.map(|device| device.bytes()).sum();
        self.devices = devices.iter().map(device_status).collect();
        // A missing device has no name of its own; the volume file has its last one.
        for (device, name) in self.devices.iter_mut().zip(&config.devices) {
            if device.health == MISSING && name != config::MISSING {
                device.name.clone_from(name);
            }
        }
        for index in journal::set(layer, devices.len()) {
            self.devices[usize::from(index)].role = JOURNAL.into();
        }
        let gone = |index: usize| layer.members.removed.contains(index as u8);
        let removed = self.devices.iter_mut().enumerate().filter(|(index, _)| gone(*index));
        removed.for_each(|(_, device)| device.health = REMOVED.into());
        let spare = self.devices.iter_mut().enumerate();
        let spare = spare.filter(|(index, _)| layer.members.spare.contains(*index as u8));
        spare.for_each(|(_, device)| device.role = SPARE.into());
        self.degraded = self.devices.iter().any(DeviceStatus::is_away);
    }

    /// Sets the member number and the UUID of each device.
    pub(crate) fn set_ids(&mut self, names: &Names) {
        for (device, id) in self.devices.iter_mut().zip(names.all()) {
            (device.number, device.uuid) = (id.number, id.uuid);
        }
    }

    /// Adds the drives' reports. The write path of a served volume ends at the flash if every drive
    /// counts its media writes.
    pub(crate) fn set_drives(&mut self, drives: Vec<Option<DriveStatus>>) {
        for (device, drive) in self.devices.iter_mut().zip(drives) {
            device.drive = drive;
        }
        // A missing drive writes nothing, so its unknown counter does not matter.
        let there = self.devices.iter().filter(|device| device.health != MISSING);
        let each = there.map(|device| device.drive.as_ref()?.flash_bytes);
        // One unknown counter makes the sum unknown.
        let all: Option<u64> = each.sum();
        if let Some(traffic) = &mut self.traffic {
            traffic.set_flash(all);
        }
    }

    /// Replaces the entry of device `index`.
    pub(crate) fn replace_device(&mut self, index: usize, device: &hostftl_io::Device) {
        let was = std::mem::replace(&mut self.devices[index], device_status(device));
        // The replacement takes over the role, and notes on the absence of the old device are
        // obsolete.
        self.devices[index].role.clone_from(&was.role);
        self.device_bytes =
            self.devices.iter().filter(|it| it.role != JOURNAL).map(|it| it.bytes).sum();
        self.degraded = self.devices.iter().any(DeviceStatus::is_away);
        let (runs_without, excluded) = (without(index), format!("{EXCLUDED}{}:", was.name));
        let spare = spare_is_missing(index);
        self.notes.retain(|note| {
            let is_journal = was.role == JOURNAL && note == journal::AWAY;
            let is_old =
                [&runs_without, &excluded, &spare].into_iter().any(|it| note.starts_with(it));
            !is_old && !is_journal
        });
    }

    /// Returns the status of a volume that this process serves.
    pub(crate) fn new(
        path: &Path,
        config: &Config,
        layer: &LayerConfig,
        plan: &Plan,
        driver: &Driver<AnyLayer>,
    ) -> Self {
        let mut status = Self::at_rest(path, config, layer, plan);
        status.set_devices(driver.devices(), layer, config);
        status.served_by = Some(std::process::id());
        status.file = VolumeFile::new(path);
        status.engine = driver.engine().0.into();
        status
    }

    /// Replaces the status after the layer was reopened; the service settings are kept.
    pub(crate) fn reopened(&mut self, now: Status) {
        let was = std::mem::replace(self, now);
        (self.protection, self.ack, self.export) = (was.protection, was.ack, was.export);
        (self.export_refused, self.read_only, self.unclean_shutdown) =
            (was.export_refused, was.read_only, was.unclean_shutdown);
        // Notes of the start remain valid.
        self.notes = was.notes;
    }

    /// Sets the export, the acknowledgement policy and the process protection.
    pub(crate) fn set_service(&mut self, options: &StartOptions, export: &Export) {
        self.protection = options.protection.clone();
        match options.acks {
            Acks::Buffer => {}
            Acks::Memfd => self.ack = KEPT.into(),
            Acks::Media => self.ack = THROUGH.into(),
        }
        (self.export, self.export_refused) = (export.name.clone(), export.held.is_some());
        self.read_only = export.read_only;
    }

    /// Sets the unreadable ranges, given in sectors.
    fn set_lost(&mut self, ranges: &[(u64, u64)]) {
        let bytes = |sectors: u64| sectors * SECTOR as u64;
        self.lost_ranges =
            ranges.iter().map(|&(from, length)| (bytes(from), bytes(length))).collect();
        if ranges.is_empty() {
            return;
        }
        let all: u64 = self.lost_ranges.iter().map(|(_, length)| length).sum();
        let named = self.lost_ranges.iter().take(NAMED);
        let named: Vec<_> = named.map(|(from, length)| format!("{length} at {from}")).collect();
        let more = if ranges.len() > NAMED { ", … (all with --json)" } else { "" };
        self.notes.push(format!(
            "{all} bytes are unreadable, because their only copy is on a lost device: {}{more}",
            named.join(", ")
        ));
    }

    /// Returns this status with the current figures.
    pub(crate) fn with(
        &self,
        snapshot: &Snapshot,
        event_host: &EventHost,
        latencies: &Latencies,
    ) -> Self {
        let mut status = self.clone();
        status.notes.extend(event_host.events.notes());
        status.notes.extend(self.lost_notes(snapshot.members.lost()));
        snapshot.gauges.iter().for_each(|it| redundancy_note(&mut status.notes, it));
        status.set_lost(&snapshot.lost_ranges);
        let devices = status.devices.iter_mut().zip(&snapshot.stats.devices);
        for (index, (device, stats)) in devices.enumerate() {
            // The driver counts since its start; `hostftl clear` only moves the origin.
            let errors = stats.errors.saturating_sub(event_host.cleared_errors[index]);
            device.errors = errors;
            device.written_bytes = stats.sent * SECTOR as u64;
            device.read_bytes = stats.read * SECTOR as u64;
            let is_in = |set: DeviceSet| set.contains(index as u8);
            let failing = snapshot.gauges.map_or(DeviceSet::EMPTY, |gauges| gauges.failing);
            let member = snapshot.members.get(index as u8);
            let word = match (member.state.is_lost(), errors) {
                (true, _) if is_in(event_host.faulted) => FAULTED,
                (true, _) => LOST,
                (false, _) if is_in(failing) => FAILING,
                (false, 0) => ONLINE,
                (false, _) => "errors",
            };
            // A spare that replaced a lost device is an ordinary member now.
            if member.role != MemberRole::Spare && device.role == SPARE {
                device.role.clear();
            }
            // An absent device has no errors, and must not seem online for that reason.
            let stays = [MISSING, REMOVED].contains(&device.health.as_str());
            if is_in(event_host.removed) {
                device.health = REMOVED.into();
                status.notes.retain(|note| !note.starts_with(&without(index)));
            } else if !stays {
                device.health = word.into();
            }
        }
        status.degraded = status.devices.iter().any(DeviceStatus::is_away);
        status.space = snapshot.gauges.map(|gauges| Space::from_gauges(&gauges));
        status.set_capacity();
        status.layer_state =
            snapshot.facts.iter().map(|(name, it)| ((*name).into(), *it)).collect();
        if status.layer_state.get("cap_exceeded") == Some(&1) {
            status.notes.push(CAP_EXCEEDED.into());
        } else if status.layer_state.get("cap_is_tight") == Some(&1) {
            status.notes.push(CAP_IS_TIGHT.into());
        }
        status.memory = status.memory.in_use();
        status.events = event_host.events.totals();
        status.set_problems(&event_host.events);
        status.latencies = latencies.list();
        status.traffic = Some(Traffic::new(snapshot, event_host));
        status
    }
}

/// Writes are acknowledged when durable.
const THROUGH: &str = "durable";
/// Writes are acknowledged when they are in memory that outlives the server.
const KEPT: &str = "memfd";

/// Note: the map has more leaves than its limit.
const CAP_EXCEEDED: &str = "the map exceeds its leaf limit: small writes cost as much as without a \
                            layer; recreate the volume with more leaves";
/// Note: the map needs more than half of its leaves.
const CAP_IS_TIGHT: &str = "the written superpages need more than half of the map's leaves; \
                            recreate the volume with more leaves";

/// Health: works without errors.
pub(crate) const ONLINE: &str = "online";
/// Health: absent when the volume was opened.
pub(crate) const MISSING: &str = "missing";
/// Health: excluded by the layer.
pub(crate) const LOST: &str = "lost";
/// Health: excluded after too many faults.
pub(crate) const FAULTED: &str = "faulted";
/// Health: reads repeatedly fail or do not match.
pub(crate) const FAILING: &str = "failing";
/// Health: removed from the volume.
pub(crate) const REMOVED: &str = "removed";
/// Role: journal device.
pub(crate) const JOURNAL: &str = "journal";
/// Role: hot spare.
pub(crate) const SPARE: &str = "spare";

fn device_status(device: &hostftl_io::Device) -> DeviceStatus {
    let buffered_reason = match device.direct() {
        hostftl_io::Direct::Yes => None,
        hostftl_io::Direct::No(why) => Some((*why).into()),
    };
    DeviceStatus {
        replacement: None,
        number: 0,
        uuid: String::new(),
        name: device.name().into(),
        kind: device.backing().name().into(),
        role: String::new(),
        bytes: device.bytes(),
        direct: buffered_reason.is_none(),
        buffered_reason,
        health: match device.backing() {
            hostftl_io::Backing::Absent => MISSING.into(),
            _ => ONLINE.into(),
        },
        written_bytes: 0,
        read_bytes: 0,
        errors: 0,
        reconnects: None,
        connection_error: None,
        drive: None,
    }
}
