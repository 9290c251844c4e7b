//! The figures of a volume, for people and for scripts.

pub(crate) mod drive;
pub(crate) mod health;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod space;
pub(crate) mod tasks;
pub(crate) mod traffic;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hostftl_core::{MemberRole, SECTOR};
use hostftl_io::{Driver, Snapshot};
use hostftl_layers::{AnyLayer, LayerConfig, Plan};
use serde::{Deserialize, Serialize};

use crate::metadata::config::{self, Config};
use crate::metadata::journal;
use crate::open::event_host::Quiet;
use crate::open::names::Names;
use crate::open::options::{Acks, StartOptions};
use crate::open::refusal::degraded::{LEFT_OUT, say_what_it_means, spare_is_missing, without};
use crate::running::front::job::Export;
use crate::running::status::drive::DriveStatus;
use crate::running::status::latency::{Latencies, Latency};
use crate::running::status::memory::Memory;
use crate::running::status::space::Space;
use crate::running::status::tasks::TaskStatus;
use crate::running::status::traffic::Traffic;

/// Ranges that a note names.
const NAMED: usize = 16;

/// See the module text. Lengths are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct Status {
    pub volume: String,
    /// The volume file that is served; none when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<VolumeFile>,
    pub uuid: String,
    pub label: String,
    pub layer: String,
    /// The layer with its parameters, as `create --layer` takes it.
    pub parameters: String,
    /// The process that serves the volume; none when it is not served.
    pub served_by: Option<u32>,
    /// When a write is answered: `buffer`, `media`, or, under `serve --ack memfd` and
    /// `--ack media`, `memfd` and `durable`.
    pub ack: String,
    /// What clients call it while it is served.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub export: String,
    /// Whether the run before this one, or the last one when it is not served, ended in another way
    /// than a clean stop.
    #[serde(default)]
    pub unclean: bool,
    /// How the serving process is protected, and how not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protection: Vec<String>,
    /// Whether it is served without writing anything to its devices.
    #[serde(default)]
    pub read_only: bool,
    /// Whether clients that ask for the plain name are refused, because of an unclean end.
    #[serde(default)]
    pub held: bool,
    pub exported_bytes: u64,
    /// What the devices have together, a journal's apart.
    pub device_bytes: u64,
    pub superpage_bytes: u32,
    pub spare_permille: u32,
    /// `io_uring` or `pread`; empty when the volume is not served.
    pub engine: String,
    pub devices: Vec<DeviceStatus>,
    /// Whether a device is missing, or the layer does without one.
    #[serde(default)]
    pub degraded: bool,
    /// The ranges, first byte and length, that can't be read because only a lost device has them.
    #[serde(default)]
    pub lost_ranges: Vec<(u64, u64)>,
    /// What the layer holds; none when it keeps no account, or the volume is not served.
    #[serde(default)]
    pub space: Option<Space>,
    /// What goes on in the background, or rests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskStatus>,
    /// What else the layer shows of its state, by name.
    #[serde(default)]
    pub facts: BTreeMap<String, u64>,
    /// The serving process's memory.
    #[serde(default)]
    pub memory: Memory,
    /// Since the volume was started; none when it is not served.
    pub traffic: Option<Traffic>,
    /// The kinds of request that there were since the volume was started.
    #[serde(default)]
    pub latencies: Vec<Latency>,
    /// How often each kind of event was told of since the volume was started.
    #[serde(default)]
    pub events: BTreeMap<String, u64>,
    /// What somebody should do something about; empty when all is well.
    #[serde(default)]
    pub needs_hand: Vec<String>,
    pub notes: Vec<String>,
}

/// A volume file, to tell it from copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeFile {
    /// Its full path, without symbolic links.
    pub path: String,
    /// The device that it is on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

impl VolumeFile {
    /// The file at `path`; none when it is gone.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let (full, found) = (fs::canonicalize(path).ok()?, fs::metadata(path).ok()?);
        let path = full.display().to_string();
        Some(VolumeFile { path, device: found.dev(), inode: found.ino() })
    }

    /// Whether both are one file, under its name or another, or the same name.
    pub(crate) fn is(&self, other: &VolumeFile) -> bool {
        let one = (self.device, self.inode) == (other.device, other.inode);
        one || self.path == other.path
    }
}

/// One device of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct DeviceStatus {
    /// Its member number, which commands and events name.
    #[serde(default)]
    pub number: u8,
    /// Empty for a volume in memory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    pub name: String,
    /// `file`, `block device`, `memory` or `NBD export`.
    pub kind: String,
    /// `journal`, `spare`, or empty for a device that holds the volume's data.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    pub bytes: u64,
    /// The device to which it is being copied, which then takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    /// Whether transfers go past the page cache.
    pub direct: bool,
    /// Why they do not.
    pub why_not_direct: Option<String>,
    /// `good`, `errors` (commands failed), `failing` (reads fail or mismatch repeatedly), `faulted`
    /// (given up for that), `lost` (the layer does without it), `missing` or `removed`.
    #[serde(default)]
    pub health: String,
    #[serde(default)]
    pub sent_bytes: u64,
    #[serde(default)]
    pub read_bytes: u64,
    pub errors: u64,
    /// How often the connection to a server was made again; none without a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconnects: Option<u64>,
    /// What is wrong with that connection now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What the drive tells of itself; none of a device that can't be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveStatus>,
}

impl Status {
    /// A volume that is not served.
    pub(crate) fn at_rest(path: &Path, config: &Config, layer: &LayerConfig, plan: &Plan) -> Self {
        Status {
            volume: path.display().to_string(),
            uuid: config.uuid.to_string(),
            label: config.label.clone(),
            layer: layer.kind.name().into(),
            parameters: layer.to_text(),
            ack: plan.limits.ack.name().into(),
            exported_bytes: plan.limits.exported * SECTOR as u64,
            memory: Memory::of(plan),
            superpage_bytes: layer.superpage * SECTOR as u32,
            spare_permille: layer.spare_permille,
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
        // One that is not there is called as the volume's file calls it.
        for (device, name) in self.devices.iter_mut().zip(&config.devices) {
            if device.health == MISSING && name != config::MISSING {
                device.name.clone_from(name);
            }
        }
        let journal = journal::bit(layer, devices.len());
        let journals = self.devices.iter_mut().enumerate();
        let journals = journals.filter(|(index, _)| journal >> index & 1 == 1);
        journals.for_each(|(_, device)| device.role = JOURNAL.into());
        let gone = |index: usize| layer.members.gone >> index & 1 == 1;
        let removed = self.devices.iter_mut().enumerate().filter(|(index, _)| gone(*index));
        removed.for_each(|(_, device)| device.health = REMOVED.into());
        let spare = self.devices.iter_mut().enumerate();
        let spare = spare.filter(|(index, _)| layer.members.spare >> index & 1 == 1);
        spare.for_each(|(_, device)| device.role = SPARE.into());
        self.degraded = self.devices.iter().any(DeviceStatus::is_away);
    }

    /// Numbers the devices by member.
    pub(crate) fn set_ids(&mut self, names: &Names) {
        for (device, id) in self.devices.iter_mut().zip(names.all()) {
            (device.number, device.uuid) = (id.number, id.uuid);
        }
    }

    /// Adds the reports of the drives. While the volume is served, the traffic ends at the flash if
    /// all of them count it.
    pub(crate) fn set_drives(&mut self, drives: Vec<Option<DriveStatus>>) {
        for (device, drive) in self.devices.iter_mut().zip(drives) {
            device.drive = drive;
        }
        let there = self.devices.iter().filter(|device| device.health != MISSING);
        let each = there.map(|device| device.drive.as_ref()?.flash_bytes);
        let all: Option<u64> = each.sum();
        if let Some(traffic) = &mut self.traffic {
            traffic.set_flash(all);
        }
    }

    /// Another device is in place `index`.
    pub(crate) fn replace_device(&mut self, index: usize, device: &hostftl_io::Device) {
        let was = std::mem::replace(&mut self.devices[index], device_status(device));
        self.devices[index].role.clone_from(&was.role);
        self.device_bytes =
            self.devices.iter().filter(|it| it.role != JOURNAL).map(|it| it.bytes).sum();
        self.degraded = self.devices.iter().any(DeviceStatus::is_away);
        let (runs_without, left_out) = (without(index), format!("{LEFT_OUT}{}:", was.name));
        let spare = spare_is_missing(index);
        self.notes.retain(|note| {
            let is_journal = was.role == JOURNAL && note == journal::AWAY;
            let is_old =
                [&runs_without, &left_out, &spare].into_iter().any(|it| note.starts_with(it));
            !is_old && !is_journal
        });
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
        status.set_devices(driver.devices(), layer, config);
        status.served_by = Some(std::process::id());
        status.file = VolumeFile::of(path);
        status.engine = driver.engine().0.into();
        status
    }

    /// The layer was opened anew, and that is what `now` shows; how it is served stays.
    pub(crate) fn reopened(&mut self, now: Status) {
        let was = std::mem::replace(self, now);
        (self.protection, self.ack, self.export) = (was.protection, was.ack, was.export);
        (self.held, self.read_only, self.unclean) = (was.held, was.read_only, was.unclean);
        self.notes = was.notes;
    }

    /// When writes are answered, under which name, and by what kind of process.
    pub(crate) fn set_service(&mut self, options: &StartOptions, export: &Export) {
        self.protection = options.protection.clone();
        match options.acks {
            Acks::Buffer => {}
            Acks::Memfd => self.ack = KEPT.into(),
            Acks::Media => self.ack = THROUGH.into(),
        }
        (self.export, self.held) = (export.name.clone(), export.held.is_some());
        self.read_only = export.read_only;
    }

    /// Names what can't be read, in sectors.
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
            "{all} bytes can't be read, because only a lost device has them: {}{more}",
            named.join(", ")
        ));
    }

    /// With what changed since.
    pub(crate) fn with(&self, snapshot: &Snapshot, news: &Quiet, latencies: &Latencies) -> Self {
        let mut status = self.clone();
        status.notes.extend(news.events.notes());
        status.notes.extend(self.of_lost(snapshot.members.lost()));
        snapshot.gauges.iter().for_each(|it| say_what_it_means(&mut status.notes, it));
        status.set_lost(&snapshot.lost_ranges);
        let devices = status.devices.iter_mut().zip(&snapshot.stats.devices);
        for (index, (device, stats)) in devices.enumerate() {
            let errors = stats.errors.saturating_sub(news.cleared_errors[index]);
            device.errors = errors;
            device.sent_bytes = stats.sent * SECTOR as u64;
            device.read_bytes = stats.read * SECTOR as u64;
            let is_in = |set: u16| set >> index & 1 == 1;
            let failing = snapshot.gauges.map_or(0, |gauges| gauges.failing);
            let member = snapshot.members.get(index as u8);
            let word = match (member.state.is_lost(), errors) {
                (true, _) if is_in(news.faulted) => FAULTED,
                (true, _) => LOST,
                (false, _) if is_in(failing) => FAILING,
                (false, 0) => "good",
                (false, _) => "errors",
            };
            if member.role != MemberRole::Spare && device.role == SPARE {
                device.role.clear();
            }
            let stays = [MISSING, REMOVED].contains(&device.health.as_str());
            if news.gone >> index & 1 == 1 {
                device.health = REMOVED.into();
                status.notes.retain(|note| !note.starts_with(&without(index)));
            } else if !stays {
                device.health = word.into();
            }
        }
        status.degraded = status.devices.iter().any(DeviceStatus::is_away);
        status.space = snapshot.gauges.map(|gauges| Space::of(&gauges));
        status.facts = snapshot.facts.iter().map(|(name, it)| ((*name).into(), *it)).collect();
        if status.facts.get("cap_exceeded") == Some(&1) {
            status.notes.push(CAP_EXCEEDED.into());
        } else if status.facts.get("cap_is_tight") == Some(&1) {
            status.notes.push(CAP_IS_TIGHT.into());
        }
        status.memory = status.memory.in_use();
        status.events = news.events.totals();
        status.set_needs(&news.events);
        status.latencies = latencies.list();
        status.traffic = Some(Traffic::of(snapshot, news));
        status
    }
}

/// The word for writes that are answered once they are durable.
const THROUGH: &str = "durable";
/// The same under `serve --ack memfd`.
const KEPT: &str = "memfd";

/// What to know of a map with too many leaves.
const CAP_EXCEEDED: &str = "the map has more leaves than its cap: small writes cost as much as \
                            without a layer; make the volume with more leaves";
/// And of one that will have.
const CAP_IS_TIGHT: &str = "what was written touches so many superpages that more than half of the \
                            leaves are needed at the least; make the volume with more leaves";

/// The health of a device that is not there.
pub(crate) const MISSING: &str = "missing";
/// Of one that the layer does without.
pub(crate) const LOST: &str = "lost";
/// Of one that was given up after too many faults.
pub(crate) const FAULTED: &str = "faulted";
/// Of one whose reads fail, or do not match, repeatedly.
pub(crate) const FAILING: &str = "failing";
/// And of a place whose device was removed.
pub(crate) const REMOVED: &str = "removed";
/// The role of the journal's device.
pub(crate) const JOURNAL: &str = "journal";
/// The role of a device that waits to take the place of a lost one.
pub(crate) const SPARE: &str = "spare";

fn device_status(device: &hostftl_io::Device) -> DeviceStatus {
    let why_not_direct = match device.direct() {
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
        direct: why_not_direct.is_none(),
        why_not_direct,
        health: match device.backing() {
            hostftl_io::Backing::Absent => MISSING.into(),
            _ => "good".into(),
        },
        sent_bytes: 0,
        read_bytes: 0,
        errors: 0,
        reconnects: None,
        trouble: None,
        drive: None,
    }
}
