//! Accounts for the parts of a trace that are not handed on as requests.

use std::borrow::Cow;

use serde::Serialize;

/// Kinds that are counted one by one; all others share an entry.
const MOST_KINDS: usize = 32;
/// The entry of all kinds beyond these.
const OTHERS: &str = "lines or records of other kinds";

/// How much a reader of the results has to know of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// A request or command that has no counterpart here: worth a warning.
    Dropped,
    /// A line or record that belongs to the format and is no request, such as a completion.
    Event,
    /// A line or record that is not a part of the format.
    Foreign,
}

/// One kind of thing that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Its name, in the plural.
    pub what: Cow<'static, str>,
    /// Number of occurrences.
    pub count: u64,
    /// The line, or for a binary format the record, of the first; from 1.
    pub first: u64,
    #[serde(skip)]
    class: Class,
}

/// Everything that was left out so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut {
    entries: Vec<Left>,
    /// Events that the recorder reports as lost, and the line of the first such message.
    lost: (u64, u64),
    /// The line, or for a binary format the record, that is being read; from 1.
    pub line: u64,
}

impl LeftOut {
    /// Counts a request or command that has no counterpart here.
    pub(crate) fn dropped(&mut self, what: impl Into<Cow<'static, str>>) {
        self.add(what.into(), Class::Dropped);
    }

    /// Counts a line or record of the format that is no request.
    pub(crate) fn event(&mut self, what: impl Into<Cow<'static, str>>) {
        self.add(what.into(), Class::Event);
    }

    /// Counts a line that is not a part of the format.
    pub(crate) fn foreign(&mut self, what: &'static str) {
        self.add(what.into(), Class::Foreign);
    }

    /// Counts `events` that the recorder reports as lost.
    pub(crate) fn lost(&mut self, events: u64) {
        if events > 0 && self.lost.0 == 0 {
            self.lost.1 = self.line;
        }
        self.lost.0 = self.lost.0.saturating_add(events);
    }

    fn add(&mut self, what: Cow<'static, str>, class: Class) {
        let first = self.line;
        let is_full = self.entries.len() >= MOST_KINDS;
        let found = self.entries.iter_mut().find(|entry| entry.what == what);
        match found {
            Some(entry) => entry.count += 1,
            None if is_full && what != OTHERS => self.add(OTHERS.into(), class),
            None => self.entries.push(Left { what, count: 1, first, class }),
        }
    }

    /// Lines or records that belong to the format without being requests.
    pub(crate) fn recognised(&self) -> u64 {
        let known = self.entries.iter().filter(|entry| entry.class != Class::Foreign);
        known.map(|entry| entry.count).sum()
    }

    /// All entries, in the order of their first occurrence.
    pub(crate) fn entries(&self) -> &[Left] {
        &self.entries
    }

    /// Events that the recorder reports as lost, and the line of the first such message.
    pub(crate) fn lost_events(&self) -> (u64, u64) {
        self.lost
    }
}

impl Left {
    /// Whether a reader of the results has to know of it.
    pub(crate) fn is_dropped(&self) -> bool {
        self.class == Class::Dropped
    }
}
