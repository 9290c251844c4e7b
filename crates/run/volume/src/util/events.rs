//! Events of a volume: a line and a count for each kind, and the newest events in full, also those
//! of earlier runs.
//!
//! An event that repeats for one device and cause is one entry with a count. The entry moves to the
//! end and gets a new number each time, so that a follower sees it again.
//!
//! # Invariants
//! - Reporting an event never waits for a reader or a file.
//! - Numbers grow by one, over restarts too; the ring holds at most [`KEPT`] events.
//! - A frequent kind displaces its own events first, never the last event of another kind.

mod history;
mod kinds;
mod ring;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::util::lock;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use history::Writer;
use ring::Ring;

pub(crate) use history::{file_path, forget};
pub use kinds::KINDS;

/// Maximum number of events that are retained in full.
pub(crate) const KEPT: usize = 1024;
/// Maximum length of an event's text in bytes.
const LONGEST: usize = 1000;
/// Time limit for making an acknowledgement durable.
const PATIENCE: Duration = Duration::from_secs(4);
/// Kind of the event by which an operator acknowledges earlier ones.
const CLEARED: &str = "cleared";
/// Kinds after which a member number denotes another device, so that earlier events do not concern
/// it.
const ANOTHER: [&str; 3] = [CLEARED, "device-replaced", "device-removed"];
/// Kinds whose repeats for one device are one entry.
const REPEATS: [&str; 4] = ["repaired", "device-failed", "device-timed-out", "reconnected"];

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Information only.
    Info,
    /// Everything is served, but an operator should investigate.
    Warning,
    /// Data is not served, or not protected.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        })
    }
}

/// An event of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Number, from 1; it continues over restarts of the volume.
    pub number: u64,
    /// Time of the last occurrence, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Time of the first occurrence, in milliseconds since 1970.
    #[serde(default)]
    pub first_unix_ms: u64,
    /// Number of occurrences.
    #[serde(default = "once")]
    pub count: u64,
    /// Severity.
    pub level: Level,
    /// Kind, as listed in `docs/OPERATING.md`.
    pub kind: String,
    /// Member number of the device concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u8>,
    /// Description of the last occurrence.
    pub text: String,
}

fn once() -> u64 {
    1
}

impl Event {
    /// Formats the event as one line: the text and the number of occurrences.
    pub fn line(&self) -> String {
        match self.count {
            0 | 1 => self.text.clone(),
            count => format!("{} ({count} times since {})", self.text, time(self.first_unix_ms)),
        }
    }

    /// Returns whether this entry is a later state of `other`.
    fn continues(&self, other: &Event) -> bool {
        let key = |it: &Event| (it.device, it.first_unix_ms);
        self.count > other.count && self.kind == other.kind && key(self) == key(other)
    }
}

/// Formats a time in milliseconds since 1970.
fn time(unix_ms: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms));
    let in_range = at.filter(|_| unix_ms / 1000 < 253_402_300_800);
    in_range.map_or("?".into(), |at| humantime::format_rfc3339_seconds(at).to_string())
}

/// Events of a volume. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Events(Arc<Inner>);

/// Receiver of each event. It must not block.
pub type Sink = Box<dyn Fn(&Event) + Send + Sync>;

#[derive(Default)]
struct Inner {
    ring: Mutex<Ring>,
    sink: OnceLock<Sink>,
    writer: OnceLock<Writer>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ring.fmt(f)
    }
}

impl Events {
    /// Returns the saved events of the volume whose file is `path`; none if it has no event file.
    ///
    /// # Errors
    /// When the event file can't be read.
    pub fn open(path: &Path, volume: Uuid) -> std::io::Result<Self> {
        let events = Events::default();
        events.lock().take_in(history::read(path, volume)?);
        Ok(events)
    }

    /// Returns the saved events, and saves further ones in the same file. A file that can't be read
    /// is replaced.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn kept(path: &Path, volume: Uuid) -> std::io::Result<Self> {
        let events = Events::open(path, volume).unwrap_or_default();
        events.keep(path, volume)?;
        Ok(events)
    }

    fn keep(&self, path: &Path, volume: Uuid) -> std::io::Result<()> {
        let writer = Writer::start(path, volume, Arc::downgrade(&self.0))?;
        self.0.writer.set(writer).ok();
        Ok(())
    }

    /// Reports an event. `kind` is one of [`KINDS`].
    pub fn report(&self, level: Level, kind: &'static str, text: impl Into<String>) {
        self.add(level, kind, None, text.into());
    }

    /// Reports an event of the device with this number. A repeat increments the count of the
    /// device's entry where the kind allows that.
    pub fn report_device(
        &self,
        device: u8,
        level: Level,
        kind: &'static str,
        text: impl Into<String>,
    ) {
        self.add(level, kind, Some(device), text.into());
    }

    fn add(&self, level: Level, kind: &'static str, device: Option<u8>, text: String) {
        let unix_ms = now();
        let text = sane(&text);
        let (first_unix_ms, count, kind_text) = (unix_ms, 1, kind.to_owned());
        let event = Event {
            number: 0,
            unix_ms,
            first_unix_ms,
            count,
            level,
            kind: kind_text,
            device,
            text,
        };
        // The lock is released before the file and the sink are used, because they may be slow.
        let event = self.lock().push(event, kind);
        // A repeat is logged and saved when its count reaches a power of two; the monitor thread
        // saves the others.
        if !event.count.is_power_of_two() {
            return;
        }
        self.save(&event);
        if let Some(sink) = self.0.sink.get() {
            sink(&event);
        }
    }

    /// Passes an event to the writer of the file, if there is one and its queue has space.
    fn save(&self, event: &Event) {
        if self.0.writer.get().is_some_and(|writer| writer.write(event)) {
            self.lock().saved(event.number);
        }
    }

    /// Writes the events that could not be written when they occurred.
    pub(crate) fn save_rest(&self) {
        if self.0.writer.get().is_some() {
            let unsaved = self.lock().unsaved();
            unsaved.iter().for_each(|event| self.save(event));
        }
    }

    /// Waits until all events are durable in the file, for a bounded time.
    pub(crate) fn sync(&self) -> Result<(), String> {
        self.save_rest();
        self.0.writer.get().map_or(Ok(()), |writer| writer.sync(PATIENCE))
    }

    /// Acknowledges the events so far, or those of one device, durably.
    ///
    /// # Errors
    /// When the file can't be written: the acknowledgement does not survive a restart then.
    pub fn clear(&self, device: Option<u8>, name: &str) -> Result<(), String> {
        match device {
            Some(device) => {
                let text = format!("events of device {device} ({name}) acknowledged");
                self.report_device(device, Level::Info, CLEARED, text);
            }
            None => self.report(Level::Info, CLEARED, "events acknowledged"),
        }
        self.sync()
    }

    /// Passes the events of this run so far, and then every further event, to `sink`. Only the
    /// first call has an effect.
    pub fn follow(&self, sink: Sink) {
        let kept = self.since(0);
        if self.0.sink.set(sink).is_ok() {
            let sink = self.0.sink.get().expect("just set");
            // Events reported meanwhile may reach the sink before these.
            kept.iter().for_each(sink);
        }
    }

    /// Returns the retained events of this run with a number above `number`, oldest first.
    pub fn since(&self, number: u64) -> Vec<Event> {
        let ring = self.lock();
        // Events of earlier runs have lower numbers.
        let number = number.max(ring.begun());
        ring.iter().filter(|event| event.number > number).cloned().collect()
    }

    /// Returns all retained events, also those of earlier runs, oldest first.
    pub fn all(&self) -> Vec<Event> {
        self.lock().iter().cloned().collect()
    }

    /// Returns the newest unacknowledged events that require attention, as text: those of this run,
    /// and repairs of earlier ones.
    pub fn notes(&self) -> Vec<String> {
        self.lock().notes(|_| true)
    }

    /// Returns the notes of events that are `wanted`.
    pub fn filter_notes(&self, wanted: impl Fn(&Event) -> bool) -> Vec<String> {
        self.lock().notes(wanted)
    }

    /// Returns the event of the last scrub if it found damage that it could not repair and that is
    /// not acknowledged.
    pub fn damage(&self) -> Option<String> {
        self.lock().damage()
    }

    /// Returns the number of occurrences of each kind in this run.
    pub fn totals(&self) -> BTreeMap<String, u64> {
        self.lock().totals()
    }

    /// Returns the number of unacknowledged occurrences of each kind in this run.
    pub fn open_totals(&self) -> BTreeMap<String, u64> {
        self.lock().open_totals()
    }

    /// Returns the number of occurrences of a kind in this run.
    pub fn total(&self, kind: &str) -> u64 {
        self.lock().totals().get(kind).copied().unwrap_or_default()
    }

    /// Returns the reason why events can't be saved now; `None` while they can.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.0.writer.get()?.trouble()
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        lock(&self.0.ring)
    }
}

/// Returns the time in milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Limits the length of a text and replaces control characters.
fn sane(text: &str) -> String {
    // Device names and errors come from outside: a line must not become several, or control a
    // terminal.
    let cut = text.floor_char_boundary(LONGEST);
    text[..cut].chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_all_are_counted() {
        let events = Events::default();
        for number in 1..=KEPT as u64 + 5 {
            events.report(Level::Warning, "note", format!("{number}"));
        }
        let kept = events.since(0);
        assert_eq!((kept.len(), kept[0].number, kept[0].text.as_str()), (KEPT, 6, "6"));
        assert_eq!(events.since(KEPT as u64 + 4).len(), 1);
        assert_eq!(events.totals()["note"], KEPT as u64 + 5);
        assert_eq!((events.total("note"), events.total("corrupt")), (KEPT as u64 + 5, 0));
    }

    #[test]
    fn a_new_sink_receives_earlier_events() {
        let (events, received) = (Events::default(), Arc::new(Mutex::new(Vec::new())));
        events.report(Level::Info, "note", "one");
        let ear = received.clone();
        events.follow(Box::new(move |event| ear.lock().unwrap().push(event.text.clone())));
        events.clone().report(Level::Error, "failed", "two");
        assert_eq!(*received.lock().unwrap(), ["one", "two"]);
    }

    #[test]
    fn repeated_device_events_are_counted_in_one_entry() {
        let (events, lines) = (Events::default(), Arc::new(Mutex::new(0)));
        let count = lines.clone();
        events.follow(Box::new(move |_| *count.lock().unwrap() += 1));
        for place in 0..4000_u16 {
            let device = (place % 2) as u8;
            events.report_device(device, Level::Warning, "repaired", format!("place {place}"));
        }
        events.report_device(1, Level::Warning, "device-failed", "a command failed");
        let kept = events.since(0);
        let seen: Vec<_> = kept.iter().map(|it| (it.device, it.count, it.text.as_str())).collect();
        let wanted = [
            (Some(0), 2000, "place 3998"),
            (Some(1), 2000, "place 3999"),
            (Some(1), 1, "a command failed"),
        ];
        assert_eq!(seen, wanted);
        assert_eq!((events.total("repaired"), events.notes().len()), (4000, 3));
        assert_eq!(kept[1].number, 4000, "a follower sees it again");
        assert!(*lines.lock().unwrap() < 30, "{lines:?} lines");
        assert!(kept[0].line().starts_with("place 3998 (2000 times since 20"), "{:?}", kept[0]);
    }

    #[test]
    fn acknowledged_events_are_no_notes_and_a_repeat_begins_again() {
        let events = Events::default();
        let repair = |device| events.report_device(device, Level::Warning, "repaired", "repaired");
        (0..3).for_each(|_| repair(0));
        (0..3).for_each(|_| repair(1));
        events.report(Level::Error, "corrupt", "lost");
        events.clear(Some(1), "d1").unwrap();
        assert_eq!(events.notes().len(), 2);
        assert_eq!(events.open_totals()["corrupt"], 1);
        repair(1);
        assert_eq!(events.since(0).last().map(|it| (it.device, it.count)), Some((Some(1), 1)));
        events.clear(None, "").unwrap();
        assert!(events.notes().is_empty() && !events.open_totals().contains_key("corrupt"));
        assert_eq!(events.total("corrupt"), 1, "the metric never goes back");
        events.report(Level::Error, "scrub-damage", "3 blocks");
        assert_eq!(events.damage().as_deref(), Some("3 blocks"));
        events.report(Level::Info, "scrub-complete", "scrub complete");
        assert_eq!(events.damage(), None);
    }

    #[test]
    fn a_frequent_kind_displaces_no_other() {
        let events = Events::default();
        events.report(Level::Error, "device-lost", "device 2 was lost");
        (0..3 * KEPT).for_each(|it| events.report(Level::Info, "client", format!("{it}")));
        assert_eq!(events.since(0)[0].kind, "device-lost");
    }
}
