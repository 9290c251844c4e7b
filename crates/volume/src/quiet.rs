//! A host without requests: for format, check, and the time before a volume serves.

use std::io::ErrorKind;

use hostftl_core::{Credits, DeviceError, Event, Payload, Reply, SECTOR, TaskEnd, TaskKind};
use hostftl_io::{Device, Host, IoError, Pull};

use crate::counted::counted;
use crate::error::Error;
use crate::events::{Events, Level};

/// What to do when a start has no room for what it writes.
const FULL: &str = "a start has to write: make room where the device is, and start again; \
                    `hostftl serve --read-only` reads the volume as it is";

/// `error` of a start, and what to do if a device has no room.
pub fn explain_full(error: IoError) -> Error {
    match &error {
        IoError::System { source, .. } if source.kind() == ErrorKind::StorageFull => {
            Error::Recovery { source: error, troubles: FULL.into() }
        }
        _ => error.into(),
    }
}

/// Keeps what the layer tells.
#[derive(Debug, Default)]
pub struct Quiet {
    /// The devices by name, in the order of the stack.
    devices: Vec<String>,
    /// Log writes that recovery applied.
    pub replayed: u64,
    /// Log writes at the end that were not whole.
    pub dropped: u64,
    /// Whether a device had no room.
    is_full: bool,
    /// What else happened that should be known.
    pub troubles: Vec<String>,
    /// Who else hears of it.
    pub events: Events,
}

impl Quiet {
    /// One that calls the devices by their names.
    pub fn of(devices: &[Device]) -> Self {
        let devices = devices.iter().map(|device| device.name().into()).collect();
        Quiet { devices, ..Quiet::default() }
    }

    /// Something happened that should be known.
    pub fn tell(&mut self, level: Level, kind: &'static str, text: String) {
        self.events.tell(level, kind, text.clone());
        self.troubles.push(text);
    }

    /// What was mended, and what else happened that should be known.
    pub fn sort_troubles(&mut self) -> (Vec<String>, Vec<String>) {
        let mended: Vec<String> = {
            let events = self.events.since(0).into_iter();
            events.filter(|event| event.kind == "mended").map(|event| event.text).collect()
        };
        std::mem::take(&mut self.troubles).into_iter().partition(|text| mended.contains(text))
    }

    /// What a device is called.
    pub fn name(&self, device: u8) -> &str {
        self.devices.get(usize::from(device)).map_or("", String::as_str)
    }

    /// A device that has left can't be closed.
    pub fn stays_open(&self, device: u8, why: &IoError) {
        let name = self.name(device);
        let text = format!("{name} was removed, and stays open until the volume is stopped: {why}");
        self.events.tell(Level::Warning, "device-held", text);
    }

    /// One device more.
    pub fn add(&mut self, name: &str) {
        self.devices.push(name.into());
    }

    /// A device is called so from now on.
    pub fn rename(&mut self, device: u8, name: String) {
        self.devices[usize::from(device)] = name;
    }

    /// `error` and what led to it.
    pub fn explain(&self, error: IoError) -> Error {
        let hint = self.is_full.then(|| FULL.to_owned());
        let troubles: Vec<String> = self.troubles.iter().cloned().chain(hint).collect();
        match troubles.is_empty() || matches!(error, IoError::Look { .. }) {
            true => error.into(),
            false => Error::Recovery { source: error, troubles: troubles.join("; ") },
        }
    }
}

impl Host for Quiet {
    fn pull(&mut self, _credits: Credits) -> Pull {
        Pull::Over
    }

    fn has_work(&self) -> bool {
        false
    }

    fn answer(&mut self, reply: Reply) {
        unreachable!("an answer that nobody asked for: {reply:?}");
    }

    fn reclaim(&mut self, payload: Payload) {
        unreachable!("a payload that nobody gave: {payload:?}");
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Ready { replayed, dropped } => {
                (self.replayed, self.dropped) = (replayed, dropped);
            }
            Event::DeviceFailed { device, error, abandoned } => {
                let name = self.name(device);
                let (level, kind, late) = match abandoned {
                    true => (Level::Error, "device-timed-out", ", and did not answer in time"),
                    false => (Level::Warning, "device-failed", ""),
                };
                let text = format!("device {device} ({name}) failed: {error}{late}");
                self.is_full |= error == DeviceError::NoSpace;
                self.tell(level, kind, text);
            }
            Event::Older { device } => {
                let text = format!(
                    "device {device} ({}) is an older copy, made before the volume was started \
                     last: bring back the device itself, or older copies of all devices that were \
                     made together; nothing was written",
                    self.name(device)
                );
                self.tell(Level::Error, "failed", text);
            }
            Event::Lost { sectors } => {
                let why = "they are errors until they are written again";
                let text =
                    format!("{} can't be read back: {why}", counted(sectors.into(), "sector"));
                self.tell(Level::Error, "sectors-lost", text);
            }
            Event::Corrupt { lba, sectors } => {
                let text = format!(
                    "{} are damaged and can't be rebuilt: reads of them are errors until they \
                     are written; restore them from a backup",
                    range("the volume", lba, sectors)
                );
                self.tell(Level::Error, "corrupt", text);
            }
            Event::Mended { device, lba, sectors } => {
                let place = format!("device {device} ({})", self.name(device));
                let text = format!(
                    "{} were damaged or could not be read, and were rebuilt from the other \
                     devices",
                    range(&place, lba, sectors)
                );
                self.tell(Level::Warning, "mended", text);
            }
            Event::Over { task, end, beyond, mended } => {
                let (level, kind, text) = over(task, end, beyond, mended);
                self.events.tell(level, kind, text);
            }
            _ => {}
        }
    }
}

/// What came of a task, in words.
fn over(task: TaskKind, end: TaskEnd, beyond: u64, mended: u64) -> (Level, &'static str, String) {
    let found = match (mended, end) {
        (0, TaskEnd::Done) => "all that lives was read and is right".into(),
        (0, TaskEnd::Stopped) => "it was ended before it was through".into(),
        (_, TaskEnd::Done) => format!("{} mended", counted(mended, "place")),
        (_, TaskEnd::Stopped) => {
            format!("it was ended before it was through; {} mended", counted(mended, "place"))
        }
    };
    match (task, beyond) {
        (TaskKind::Scrub, 0) => (Level::Info, "scrub-over", format!("the scrub is over: {found}")),
        (TaskKind::Scrub, _) => {
            let lost = counted(beyond, "block");
            let text = format!(
                "the scrub is over: {lost} of the volume can't be rebuilt, which events of the \
                 kind corrupt name by range"
            );
            (Level::Error, "scrub-damage", text)
        }
        (task, _) => (Level::Info, "task-over", format!("{} is over", task.name())),
    }
}

/// Some sectors of something, in words: their range in bytes, too.
fn range(of: &str, lba: u64, sectors: u32) -> String {
    let (from, bytes) = (lba * SECTOR as u64, u64::from(sectors) * SECTOR as u64);
    let last = (lba + u64::from(sectors)).saturating_sub(1);
    format!("{of}: {bytes} bytes at byte {from} (sectors {lba} to {last})")
}
