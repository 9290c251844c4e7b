//! What happened to a volume that somebody should hear of: lines, counts, and the newest in full.
//!
//! Invariants
//! - Telling never waits for whoever listens: a sink must not wait either.
//! - Numbers grow by one; the ring holds the newest [`KEPT`].

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// How many events are kept in full.
pub const KEPT: usize = 1024;

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Good to know.
    Info,
    /// Everything is served, and something wants a look.
    Warning,
    /// Something is not served, or not protected.
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

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number since the volume was started, from 1.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// How bad it is.
    pub level: Level,
    /// What kind of event, as `docs/OPERATING.md` lists them.
    pub kind: String,
    /// What happened, in words.
    pub text: String,
}

/// Every kind of event, how bad it is, what it means, and what to do. `docs/OPERATING.md` has the
/// same table.
pub const KINDS: [(&str, Level, &str, &str); 26] = [
    ("started", Level::Info, "the volume was opened; the text says what recovery did", "nothing"),
    ("note", Level::Info, "something to know of the start or of the server", "read it"),
    (
        "client",
        Level::Info,
        "a client broke the protocol, was too slow or was turned away",
        "nothing, if the client is not yours",
    ),
    (
        "unclean-end",
        Level::Warning,
        "the run before ended otherwise than by a clean stop",
        "end its clients, then start with `--go-on` if the text says so",
    ),
    (
        "degraded",
        Level::Warning,
        "the volume runs without a member",
        "bring the member back, or replace its device",
    ),
    (
        "device-failed",
        Level::Warning,
        "a device answered a command with an error",
        "look at the device and the kernel's log",
    ),
    (
        "device-timed-out",
        Level::Error,
        "a device did not answer within its deadline",
        "look at the device and the kernel's log",
    ),
    (
        "reconnected",
        Level::Warning,
        "the connection to an NBD server broke, and was made again",
        "look at the network and the server when the count grows",
    ),
    (
        "protected",
        Level::Info,
        "all that lay on a lost device was made again on the others, with parity",
        "replace the device when it suits: `hostftl device replace`",
    ),
    (
        "device-added",
        Level::Info,
        "one device more came while the volume was served",
        "nothing; clients see a new size when they connect",
    ),
    (
        "device-replaced",
        Level::Info,
        "another device came in the place of one while the volume was served",
        "nothing; `device-joined` follows, and `hostftl wait` ends when all is made anew",
    ),
    (
        "device-joined",
        Level::Info,
        "a device that came belongs to the volume",
        "nothing; `status` says what is exposed until all is made anew",
    ),
    (
        "device-removed",
        Level::Info,
        "nothing lies any more on a device that was to be removed",
        "take it away when it suits",
    ),
    (
        "device-held",
        Level::Warning,
        "a device that was removed can't be closed by the process that serves the volume",
        "stop the volume before the device is used for something else",
    ),
    (
        "device-lost",
        Level::Error,
        "the layer goes on without a device",
        "bring the device back, or replace it",
    ),
    (
        "mended",
        Level::Warning,
        "data that was damaged or unreadable on a device was rebuilt from parity",
        "watch the device; replace it when the count grows",
    ),
    (
        "corrupt",
        Level::Error,
        "data does not match its checksum and can't be rebuilt; reads of the range fail",
        "restore the range from a backup: writing it ends the error",
    ),
    (
        "scrub-over",
        Level::Info,
        "a scrub is over and found nothing that can't be mended",
        "nothing; look at `mended` when it found something",
    ),
    (
        "scrub-damage",
        Level::Error,
        "a scrub is over and found what can't be rebuilt",
        "restore the ranges that events of the kind `corrupt` name",
    ),
    (
        "scrub-unkept",
        Level::Warning,
        "where a scrub is can't be written beside the volume file",
        "make room there; until then a restart repeats what was scrubbed since",
    ),
    ("task-over", Level::Info, "other work in the background is over", "nothing"),
    (
        "sectors-lost",
        Level::Error,
        "sectors can't be read back; they are errors until they are written",
        "restore them from a backup",
    ),
    (
        "answered-error",
        Level::Warning,
        "a host got an error for a request",
        "look at the events before it",
    ),
    (
        "space-low",
        Level::Warning,
        "a volume that exports more than fits is nearly full",
        "trim, or add devices, before writes are refused",
    ),
    (
        "no-space",
        Level::Error,
        "a device or the volume has no room",
        "make room on the file system, or trim",
    ),
    (
        "failed",
        Level::Error,
        "the layer failed: writes and flushes are errors until the volume is opened again",
        "look at the events before it, then start it again",
    ),
];

/// See the module text. Clones tell of the same volume.
#[derive(Clone, Debug, Default)]
pub struct Events(Arc<Inner>);

/// Takes each event, and must not wait.
pub type Sink = Box<dyn Fn(&Event) + Send + Sync>;

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    sink: OnceLock<Sink>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

#[derive(Debug, Default)]
struct State {
    told: u64,
    newest: VecDeque<Event>,
    totals: BTreeMap<&'static str, u64>,
}

impl Events {
    /// Tells of something that happened. `kind` is one of [`KINDS`].
    pub fn tell(&self, level: Level, kind: &'static str, text: impl Into<String>) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut state = self.lock();
        state.told += 1;
        *state.totals.entry(kind).or_default() += 1;
        let event = Event {
            number: state.told,
            unix_ms: since.as_millis() as u64,
            level,
            kind: kind.into(),
            text: text.into(),
        };
        if state.newest.len() == KEPT {
            state.newest.pop_front();
        }
        state.newest.push_back(event.clone());
        drop(state);
        if let Some(sink) = self.0.sink.get() {
            sink(&event);
        }
    }

    /// From now on every event goes to `sink` too; what is kept goes there first. The first sink
    /// stays.
    pub fn follow(&self, sink: Sink) {
        let kept: Vec<Event> = self.lock().newest.iter().cloned().collect();
        if self.0.sink.set(sink).is_ok() {
            let sink = self.0.sink.get().expect("it was set just now");
            kept.iter().for_each(sink);
        }
    }

    /// The events that are kept and have a number above `number`, oldest first.
    pub fn since(&self, number: u64) -> Vec<Event> {
        self.lock().newest.iter().filter(|event| event.number > number).cloned().collect()
    }

    /// How often each kind was told of.
    pub fn totals(&self) -> BTreeMap<String, u64> {
        self.lock().totals.iter().map(|(kind, count)| ((*kind).into(), *count)).collect()
    }

    /// How often a kind was told of.
    pub fn total(&self, kind: &str) -> u64 {
        self.lock().totals.get(kind).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_all_are_counted() {
        let events = Events::default();
        for number in 1..=KEPT as u64 + 5 {
            events.tell(Level::Warning, "mended", format!("{number}"));
        }
        let kept = events.since(0);
        assert_eq!((kept.len(), kept[0].number, kept[0].text.as_str()), (KEPT, 6, "6"));
        assert_eq!(events.since(KEPT as u64 + 4).len(), 1);
        assert_eq!(events.totals()["mended"], KEPT as u64 + 5);
        assert_eq!((events.total("mended"), events.total("corrupt")), (KEPT as u64 + 5, 0));
    }

    #[test]
    fn a_sink_hears_what_came_before_it_too() {
        let (events, heard) = (Events::default(), Arc::new(Mutex::new(Vec::new())));
        events.tell(Level::Info, "note", "one");
        let ear = heard.clone();
        events.follow(Box::new(move |event| ear.lock().unwrap().push(event.text.clone())));
        events.clone().tell(Level::Error, "failed", "two");
        assert_eq!(*heard.lock().unwrap(), ["one", "two"]);
    }

    #[test]
    fn the_handbook_has_every_kind() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/OPERATING.md");
        let text = std::fs::read_to_string(path).expect("the handbook is there");
        for (kind, level, meaning, todo) in KINDS {
            let row = format!("| `{kind}` | {level} | {meaning} | {todo} |");
            assert!(text.contains(&row), "docs/OPERATING.md lacks the row\n{row}");
        }
    }
}
