//! A host without requests, for format, check, and the start of a volume.

use std::io::ErrorKind;

use hostftl_core::{
    Credits, DeviceError, DeviceSet, Event as LayerEvent, Payload, Reply, SECTOR, TaskEnd, TaskKind,
};
use hostftl_io::{Device, Host, IoError, Pull};

use crate::util::counted::counted;
use crate::util::error::Error;
use crate::util::events::{Event, Events, Level};

/// Remedy when a start fails because the file system of a device is full.
const FULL: &str = "a start writes to the devices; free space on their file system, or use \
                    `hostftl serve --read-only`";

/// Adds the remedy to the error of a start if the file system of a device is full.
pub(crate) fn explain_full(error: IoError) -> Error {
    match &error {
        IoError::System { source, .. } if source.kind() == ErrorKind::StorageFull => {
            Error::Recovery { source: error, troubles: FULL.into() }
        }
        _ => error.into(),
    }
}

/// Translates the events of a layer to events of the volume.
#[derive(Debug, Default)]
pub(crate) struct EventHost {
    /// Names of the devices, in the order of the stack.
    devices: Vec<String>,
    /// Log writes that recovery applied.
    pub replayed: u64,
    /// Incomplete log writes at the end.
    pub dropped: u64,
    /// Whether the file system of a device is full.
    is_full: bool,
    /// Events of the volume.
    pub events: Events,
    /// Lost devices whose data was rebuilt elsewhere, and which are not excluded in all superblocks
    /// yet.
    pub unrecorded: DeviceSet,
    /// Devices that were removed in all superblocks.
    pub removed: DeviceSet,
    /// Devices that were faulted because of repeated errors.
    pub faulted: DeviceSet,
    /// Failed commands of each device that an operator acknowledged.
    pub cleared_errors: [u64; 16],
}

impl EventHost {
    /// Creates a host with the names of these devices.
    pub(crate) fn new(devices: &[Device]) -> Self {
        Self::with_events(devices, Events::default())
    }

    /// Creates a host that reports to `events`.
    pub(crate) fn with_events(devices: &[Device], events: Events) -> Self {
        let devices = devices.iter().map(|device| device.name().into()).collect();
        EventHost { devices, events, ..EventHost::default() }
    }

    /// Returns the repairs, and the other events that require attention.
    pub(crate) fn split_notes(&self) -> (Vec<String>, Vec<String>) {
        let is_repair = |event: &Event| event.kind == "repaired";
        let notes = self.events.filter_notes(is_repair);
        (notes, self.events.filter_notes(|event| !is_repair(event)))
    }

    /// Returns the name of a device.
    pub(crate) fn name(&self, device: u8) -> &str {
        self.devices.get(usize::from(device)).map_or("", String::as_str)
    }

    /// Reports that a device is failing or was faulted.
    fn report_faults(&mut self, device: u8, faults: u32, is_lost: bool) {
        let place = format!("device {device} ({})", self.name(device));
        let faults = counted(faults.into(), "failed or mismatching read");
        if is_lost {
            self.faulted.insert(device);
            let text = format!("FAULTED: {place} excluded after {faults}");
            return self.events.report_device(device, Level::Error, "device-faulted", text);
        }
        let text = format!(
            "FAILING: {place} had {faults}; it counts as missing until it is replaced or a scrub \
             verifies its data"
        );
        self.events.report_device(device, Level::Error, "device-failing", text);
    }

    /// Reports that a removed device can't be closed.
    pub(crate) fn stays_open(&self, device: u8, why: &IoError) {
        let name = self.name(device);
        let text = format!("{name} was removed, but stays open until the volume is stopped: {why}");
        self.events.report_device(device, Level::Warning, "device-not-closed", text);
    }

    /// Adds a device.
    pub(crate) fn add(&mut self, name: &str) {
        self.devices.push(name.into());
    }

    /// Changes the name of a device.
    pub(crate) fn rename(&mut self, device: u8, name: String) {
        self.devices[usize::from(device)] = name;
    }

    /// Adds the events that led to `error`.
    pub(crate) fn explain(&self, error: IoError) -> Error {
        let hint = self.is_full.then(|| FULL.to_owned());
        let troubles: Vec<String> = self.events.notes().into_iter().chain(hint).collect();
        // A full overlay is not caused by the devices, so their events would mislead.
        if troubles.is_empty() || matches!(error, IoError::OverlayFull { .. }) {
            error.into()
        } else {
            Error::Recovery { source: error, troubles: troubles.join("; ") }
        }
    }
}

impl Host for EventHost {
    fn pull(&mut self, _credits: Credits) -> Pull {
        Pull::Over
    }

    fn has_work(&self) -> bool {
        false
    }

    fn answer(&mut self, reply: Reply) {
        unreachable!("reply without a request: {reply:?}");
    }

    fn reclaim(&mut self, payload: Payload) {
        unreachable!("unknown payload: {payload:?}");
    }

    fn event(&mut self, event: LayerEvent) {
        match event {
            LayerEvent::Ready { replayed, dropped } => {
                (self.replayed, self.dropped) = (replayed, dropped);
            }
            LayerEvent::DeviceFailed { device, error, abandoned } => {
                let name = self.name(device);
                let (level, kind, late) = if abandoned {
                    (Level::Error, "device-timed-out", ", timed out")
                } else {
                    (Level::Warning, "device-failed", "")
                };
                let text = format!("device {device} ({name}) failed: {error}{late}");
                // A sparse file may fill its file system.
                self.is_full |= error == DeviceError::NoSpace;
                self.events.report_device(device, level, kind, text);
            }
            LayerEvent::Failing { device, faults, is_lost } => {
                self.report_faults(device, faults, is_lost);
            }
            LayerEvent::Older { device } => {
                let text = format!(
                    "device {device} ({}) is an older copy, made before the last start; reconnect \
                     the device itself, or matching copies of all devices; nothing was written",
                    self.name(device)
                );
                self.events.report(Level::Error, "failed", text);
            }
            LayerEvent::Lost { sectors } => {
                let why = "reads fail until they are written again";
                let text = format!("{} lost: {why}", counted(sectors.into(), "sector"));
                self.events.report(Level::Error, "sectors-lost", text);
            }
            LayerEvent::Corrupt { lba, sectors } => {
                let text = format!(
                    "{} are damaged and cannot be rebuilt; reads fail until they are written, \
                     restore them from a backup",
                    range("the volume", lba, sectors)
                );
                self.events.report(Level::Error, "corrupt", text);
            }
            LayerEvent::Repaired { device, lba, sectors } => {
                let place = format!("device {device} ({})", self.name(device));
                let text = format!(
                    "{} were damaged or unreadable; rebuilt from the other devices",
                    range(&place, lba, sectors)
                );
                self.events.report_device(device, Level::Warning, "repaired", text);
            }
            LayerEvent::Over {
                task: TaskKind::Scrub,
                end,
                beyond,
                repaired: mended,
                unrepaired,
            } => {
                let (level, kind, text) = scrub_over(end, beyond, mended, unrepaired);
                self.events.report(level, kind, text);
            }
            LayerEvent::Over { task, .. } => {
                let text = format!("{} complete", task.name());
                self.events.report(Level::Info, "task-complete", text);
            }
            _ => {}
        }
    }
}

/// Describes the outcome of a scrub: `beyond` counts blocks, the other two count stripes.
fn scrub_over(
    end: TaskEnd,
    beyond: u64,
    repaired: u64,
    unrepaired: u64,
) -> (Level, &'static str, String) {
    let stripes = |count, what| match count {
        0 => String::new(),
        count => format!("; {} {what}", counted(count, "stripe")),
    };
    let repairs = stripes(repaired, "repaired");
    if beyond > 0 {
        let (lost, rest) = (counted(beyond, "block"), stripes(unrepaired, "not repaired"));
        let text = format!(
            "scrub complete: {lost} cannot be rebuilt, events of kind corrupt name the \
             ranges{repairs}{rest}"
        );
        return (Level::Error, "scrub-damage", text);
    }
    match (end, unrepaired) {
        (TaskEnd::Stopped, _) => {
            let rest = stripes(unrepaired, "damaged and not repaired yet");
            (Level::Info, "scrub-complete", format!("scrub stopped before its end{repairs}{rest}"))
        }
        (TaskEnd::Done, 0) => (
            Level::Info,
            "scrub-complete",
            format!("scrub complete: all valid data verified{repairs}"),
        ),
        (TaskEnd::Done, _) => {
            let rest = stripes(unrepaired, "damaged and not repaired");
            let next = "; free space or replace the device, then scrub again";
            (Level::Error, "scrub-damage", format!("scrub complete{repairs}{rest}{next}"))
        }
    }
}

/// Describes a range of sectors, also in bytes.
fn range(name: &str, lba: u64, sectors: u32) -> String {
    let (from, bytes) = (lba * SECTOR as u64, u64::from(sectors) * SECTOR as u64);
    let last = (lba + u64::from(sectors)).saturating_sub(1);
    format!("{name}: {bytes} bytes at byte {from} (sectors {lba} to {last})")
}
