//! Position of a scrub and devices with known damage, saved beside the volume file for the next
//! start; and the schedule of scrubs.
//!
//! A start with known damage scrubs all data, because the layer does not remember the locations of
//! the damage. Until that scrub is complete, the devices count as damaged.
//!
//! If the file is lost or its position is old, stripes are read again and damage is found again. If
//! it can't be written, an event and the status report it, and the write is retried.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hostftl_core::{AdminCommand, AdminOutcome, DeviceSet, Gauges, Refusal, Scrub, Task, TaskKind};
use serde::{Deserialize, Serialize};

use crate::running::front::Port;
use crate::util::events::{Events, Level};
use crate::util::lock;
use crate::util::private::{beside, open_plain, replace_private};

/// Suffix of the file's name.
const ENDING: &str = ".scrub";
/// Maximum number of bytes read from the file.
const LONGEST: u64 = 4096;
/// Interval of writes of the position.
const EVERY: Duration = Duration::from_secs(2);

/// Content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ScrubFile {
    /// Position of the scrub; `None` when none is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<u64>,
    #[serde(default)]
    paused: bool,
    /// Devices with known damage that is not durably repaired, and failing ones, as a bit set.
    #[serde(default)]
    damaged: u16,
    /// Devices that failed repeatedly, as a bit set.
    #[serde(default)]
    failing: u16,
    /// End of the last scrub, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<u64>,
}

/// Devices with known damage, which a layer forgets when it is closed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownDamage {
    damaged: DeviceSet,
    failing: DeviceSet,
}

impl KnownDamage {
    /// Returns the damage that a layer reports.
    pub(crate) fn from_gauges(gauges: Option<&Gauges>) -> Self {
        gauges.map_or(KnownDamage::default(), |it| KnownDamage {
            damaged: it.damaged,
            failing: it.failing,
        })
    }

    /// Returns the damage that was saved beside the volume file at `volume`.
    pub(crate) fn saved(volume: &Path) -> Self {
        read(&beside(volume, ENDING)).damage()
    }

    /// Passes the damage to a layer.
    pub(crate) fn pass(self, mut ask: impl FnMut(AdminCommand) -> Result<AdminOutcome, Refusal>) {
        for device in self.damaged.iter() {
            // Only a layer with redundancy reports damage, and so takes the request.
            ask(AdminCommand::Doubt { device, is_failing: self.failing.contains(device) }).ok();
        }
    }

    /// Returns the position at which a scrub resumes that was at `place`, or `None` if none was in
    /// progress. A layer does not remember where damage is, so with damage all data is verified.
    pub(crate) fn scrub_from(self, place: Option<u64>) -> Option<u64> {
        if self.damaged.is_empty() { place } else { Some(0) }
    }
}

impl ScrubFile {
    fn damage(&self) -> KnownDamage {
        let [damaged, failing] = [self.damaged, self.failing].map(DeviceSet::from_bits);
        KnownDamage { damaged, failing }
    }
}

/// Schedule and saved state of scrubs.
#[derive(Debug)]
pub(crate) struct Scrubbing {
    path: PathBuf,
    noted: ScrubFile,
    written: ScrubFile,
    at: Instant,
    every: Option<Duration>,
    port: Port,
    events: Events,
    save_error: SaveError,
}

/// Reason why the position can't be saved; `None` while it can. Reading it never waits for a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct SaveError(Arc<Mutex<Option<String>>>);

impl SaveError {
    /// Returns the reason.
    pub(crate) fn why(&self) -> Option<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        lock(&self.0)
    }
}

impl Scrubbing {
    /// Resumes the scrub in progress; with known damage it restarts at the beginning. With `every`
    /// a scrub starts that long after the last one.
    pub(crate) fn resume(volume: &Path, every: Option<Duration>, port: Port) -> Self {
        let path = beside(volume, ENDING);
        let noted = read(&path);
        if let Some(place) = noted.damage().scrub_from(noted.place) {
            port.operate(AdminCommand::Scrub(Scrub::Start(place))).ok();
            // A paused scrub must be started first: the layer of this run knows no position yet.
            if noted.paused {
                port.operate(AdminCommand::Scrub(Scrub::Pause)).ok();
            }
        }
        let (written, at) = (noted.clone(), Instant::now());
        let (events, save_error) = (Events::default(), SaveError::default());
        Scrubbing { path, written, noted, at, every, port, events, save_error }
    }

    /// Reports failed writes to `events`, and their reason to `save_error`.
    pub(crate) fn with_events(self, events: &Events, save_error: &SaveError) -> Self {
        Scrubbing { events: events.clone(), save_error: save_error.clone(), ..self }
    }

    /// Records the progress of the tasks and the damaged devices, and starts a scrub that is due.
    pub(crate) fn sample(&mut self, tasks: &[Task], gauges: Option<&Gauges>) {
        if let Some(gauges) = gauges {
            self.noted.damaged = gauges.damaged.to_bits();
            self.noted.failing = gauges.failing.to_bits();
        }
        let now = seconds();
        let task = tasks.iter().find(|task| task.kind == TaskKind::Scrub);
        let was = self.noted.place;
        match task {
            Some(task) => {
                (self.noted.place, self.noted.paused) = (Some(task.place), task.is_paused);
            }
            None if was.is_some() => {
                (self.noted.place, self.noted.paused) = (None, false);
                self.noted.ended = Some(now);
            }
            None => {
                if let Some(every) = self.every {
                    let due =
                        self.noted.ended.map_or(0, |ended| ended.saturating_add(every.as_secs()));
                    if due <= now {
                        self.noted.ended = Some(now);
                        // A refused start counts as well, so that it is not repeated at each
                        // sample.
                        self.port.operate(AdminCommand::Scrub(Scrub::Start(0))).ok();
                    }
                }
            }
        }
        // A position before the written one belongs to another scrub.
        let urgent = self.noted.place.is_some() != self.written.place.is_some()
            || self.noted.place < self.written.place
            || self.noted.paused != self.written.paused
            || self.noted.damaged != self.written.damaged
            || self.noted.failing != self.written.failing;
        // After a failed write, retry at the regular interval only.
        let urgent = urgent && self.save_error.why().is_none();
        if self.noted != self.written && (urgent || self.at.elapsed() >= EVERY) {
            self.write();
        }
    }

    /// Writes the file if it is outdated. The first of several failures in a row is reported.
    pub(crate) fn write(&mut self) {
        if self.noted == self.written {
            return;
        }
        // Also after a failure, which limits the rate of the attempts.
        self.at = Instant::now();
        let trouble = self.keep().err().map(|error| {
            format!(
                "cannot write {}: {error}; a restart uses an older scrub position and damage \
                 list, free space there",
                self.path.display()
            )
        });
        if trouble.is_none() {
            self.written = self.noted.clone();
        }
        let was = std::mem::replace(&mut *self.save_error.lock(), trouble.clone());
        if let Some(text) = trouble.filter(|_| was.is_none()) {
            self.events.report(Level::Warning, "scrub-not-saved", text);
        }
    }

    fn keep(&self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.noted).expect("plain fields");
        replace_private(&self.path, &text).map(drop)
    }
}

/// Reads the file. A damaged file counts as missing, and a time in the future as the present.
fn read(path: &Path) -> ScrubFile {
    let mut text = Vec::new();
    let read = open_plain(path).and_then(|file| file.take(LONGEST).read_to_end(&mut text));
    let noted: Option<ScrubFile> = read.ok().and_then(|_| serde_json::from_slice(&text).ok());
    let noted = noted.unwrap_or_default();
    ScrubFile { ended: noted.ended.map(|ended| ended.min(seconds())), ..noted }
}

/// Returns the time in seconds since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Removes the file of a volume.
pub(crate) fn forget(volume: &Path) {
    fs::remove_file(beside(volume, ENDING)).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.toml.scrub");
        for text in ["", "{", "[]", "{\"place\":-1}", &" ".repeat(1 << 20)] {
            fs::write(&path, text).unwrap();
            assert_eq!(read(&path), ScrubFile::default());
        }
        fs::write(&path, format!("{{\"ended\":{}}}", u64::MAX)).unwrap();
        assert!(read(&path).ended.unwrap() <= seconds(), "a clock that was ahead");
        fs::remove_file(&path).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "{\"place\":7}").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert_eq!(read(&path), ScrubFile::default(), "a symbolic link is not followed");
    }
}
