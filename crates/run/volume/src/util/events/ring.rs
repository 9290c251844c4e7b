//! The newest events and their acknowledgements.

use std::collections::{BTreeMap, VecDeque};

use super::{ANOTHER, CLEARED, Event, KEPT, Level, REPEATS};

/// Kinds that the status shows as notes.
const NOTES: [&str; 7] = [
    "device-failed",
    "device-timed-out",
    "superblock-failed",
    "failed",
    "sectors-lost",
    "corrupt",
    "repaired",
];
/// Maximum number of notes of one kind that are shown.
const SHOWN: usize = 16;

/// An event, and whether it is in the file.
#[derive(Debug)]
struct Entry {
    event: Event,
    is_saved: bool,
}

/// Ring of the newest events, with counts of each kind.
#[derive(Debug, Default)]
pub(super) struct Ring {
    entries: VecDeque<Entry>,
    /// Number of the newest event.
    number: u64,
    /// Number of the last event of earlier runs.
    begun: u64,
    /// Events up to these numbers were acknowledged: all events, and those of each device.
    cleared: u64,
    device_cleared: [u64; 16],
    /// Occurrences of each kind in this run, now and when all events were acknowledged last.
    totals: BTreeMap<&'static str, u64>,
    acknowledged: BTreeMap<&'static str, u64>,
}

impl Ring {
    /// Adds the events of earlier runs.
    pub(super) fn take_in(&mut self, known: Vec<Event>) {
        for event in known {
            self.entries.retain(|it| !event.continues(&it.event));
            self.number = self.number.max(event.number);
            self.note_cleared(&event);
            self.append(event, true);
        }
        self.begun = self.number;
    }

    /// Adds an event of this run, or increments the count of its entry. Returns the current entry.
    pub(super) fn push(&mut self, event: Event, kind: &'static str) -> Event {
        *self.totals.entry(kind).or_default() += 1;
        self.number += 1;
        let mut event = Event { number: self.number, ..event };
        if event.device.is_some() && REPEATS.contains(&kind) {
            let same = |it: &Entry| {
                (&it.event.kind, it.event.device) == (&event.kind, event.device)
                    // An acknowledged entry ends: the next repeat starts a new count.
                    && !self.is_acknowledged(&it.event)
            };
            if let Some(known) = self.entries.iter().rposition(same) {
                let known = self.entries.remove(known).expect("it was found").event;
                event.count = known.count + 1;
                event.first_unix_ms = known.first_unix_ms;
            }
        }
        self.note_cleared(&event);
        if event.kind == CLEARED && event.device.is_none() {
            self.acknowledged.clone_from(&self.totals);
        }
        self.append(event.clone(), false);
        event
    }

    fn append(&mut self, event: Event, is_saved: bool) {
        if self.entries.len() == KEPT {
            let mut counts = BTreeMap::<&str, usize>::new();
            self.entries.iter().for_each(|it| *counts.entry(&it.event.kind).or_default() += 1);
            let most = counts.into_iter().max_by_key(|(_, count)| *count).expect("it is full").0;
            let oldest = self.entries.iter().position(|it| it.event.kind == most);
            self.entries.remove(oldest.expect("it was counted"));
        }
        self.entries.push_back(Entry { event, is_saved });
    }

    fn note_cleared(&mut self, event: &Event) {
        match event.device {
            None if event.kind == CLEARED => self.cleared = event.number,
            Some(device @ 0..16) if ANOTHER.contains(&event.kind.as_str()) => {
                self.device_cleared[usize::from(device)] = event.number;
            }
            _ => {}
        }
    }

    fn is_acknowledged(&self, event: &Event) -> bool {
        let device_cleared = event.device.and_then(|it| self.device_cleared.get(usize::from(it)));
        event.number <= self.cleared.max(device_cleared.copied().unwrap_or(0))
    }

    /// Returns the number of the last event of earlier runs.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Returns all events, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.entries.iter().map(|it| &it.event)
    }

    /// Records that the file has the entry with this number.
    pub(super) fn saved(&mut self, number: u64) {
        let entry = self.entries.iter_mut().rev().find(|it| it.event.number == number);
        entry.into_iter().for_each(|it| it.is_saved = true);
    }

    /// Returns the events that are not in the file.
    pub(super) fn unsaved(&self) -> Vec<Event> {
        let unsaved = self.entries.iter().filter(|it| !it.is_saved);
        unsaved.map(|it| it.event.clone()).collect()
    }

    /// Returns the unacknowledged notes among the events that are `wanted`.
    pub(super) fn notes(&self, wanted: impl Fn(&Event) -> bool) -> Vec<String> {
        let open = |it: &&Event| {
            let is_current = it.number > self.begun || it.kind == "repaired";
            let is_note = is_current && NOTES.contains(&it.kind.as_str());
            is_note && wanted(it) && !self.is_acknowledged(it)
        };
        let count = |kind| self.iter().filter(open).filter(|it| it.kind == kind).count();
        let hidden = NOTES.map(|kind| (kind, count(kind).saturating_sub(SHOWN)));
        let mut skip = hidden;
        let mut notes = Vec::new();
        for event in self.iter().filter(open) {
            // Skip the oldest of each kind, so that the newest are shown.
            let same_kind = skip.iter_mut().find(|(kind, _)| *kind == event.kind);
            match same_kind.expect("it is one of these kinds") {
                (_, 0) => notes.push(event.line()),
                (_, left) => *left -= 1,
            }
        }
        notes.extend(hidden.into_iter().filter(|(_, hidden)| *hidden > 0).map(|(kind, hidden)| {
            format!("{hidden} more events of kind {kind}: `hostftl events` lists them")
        }));
        notes
    }

    /// Returns the event of the last scrub if it found unrepaired, unacknowledged damage.
    pub(super) fn damage(&self) -> Option<String> {
        let is_end = |it: &&Event| ["scrub-complete", "scrub-damage"].contains(&it.kind.as_str());
        let last = self.entries.iter().rev().map(|it| &it.event).find(is_end)?;
        let is_open = last.level == Level::Error && !self.is_acknowledged(last);
        is_open.then(|| last.text.clone())
    }

    /// Returns the number of occurrences of each kind in this run.
    pub(super) fn totals(&self) -> BTreeMap<String, u64> {
        self.totals.iter().map(|(kind, count)| ((*kind).into(), *count)).collect()
    }

    /// Returns the number of unacknowledged occurrences of each kind in this run.
    pub(super) fn open_totals(&self) -> BTreeMap<String, u64> {
        let open = |(kind, count): (&&'static str, &u64)| {
            let rest = count - self.acknowledged.get(kind).copied().unwrap_or(0);
            (rest > 0).then(|| ((*kind).to_owned(), rest))
        };
        self.totals.iter().filter_map(open).collect()
    }
}
