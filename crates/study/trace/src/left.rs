//! Accounting of the lines and records of a trace that are not passed on as requests.

use std::borrow::Cow;

use serde::Serialize;

/// Number of kinds that are counted individually; all others share an entry.
const MOST_KINDS: usize = 32;
/// Entry of all other kinds.
const OTHERS: &str = "lines or records of other kinds";

/// Severity of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// A request or command without a counterpart. It deserves a warning.
    Dropped,
    /// A line or record of the format that is not a request, such as a completion.
    Event,
    /// A line or record that does not belong to the format.
    Foreign,
}

/// Omitted lines or records of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Name in the plural.
    pub what: Cow<'static, str>,
    /// Number of occurrences.
    pub count: u64,
    /// Line, or in a binary format record, of the first occurrence; from 1.
    pub first: u64,
    #[serde(skip)]
    class: Class,
}

/// Everything omitted so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut {
    entries: Vec<Left>,
    /// Events that the recorder reports as lost, and the line of the first report.
    lost: (u64, u64),
    /// Number of the present line, or in a binary format of the present record; from 1.
    pub line: u64,
}

impl LeftOut {
    /// Counts a request or command without a counterpart.
    pub(crate) fn dropped(&mut self, what: impl Into<Cow<'static, str>>) {
        self.add(what.into(), Class::Dropped);
    }

    /// Counts a line or record of the format that is not a request.
    pub(crate) fn event(&mut self, what: impl Into<Cow<'static, str>>) {
        self.add(what.into(), Class::Event);
    }

    /// Counts a line that does not belong to the format.
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

    /// Returns the number of lines or records that belong to the format without being requests.
    pub(crate) fn recognised(&self) -> u64 {
        let known = self.entries.iter().filter(|entry| entry.class != Class::Foreign);
        known.map(|entry| entry.count).sum()
    }

    /// Returns all entries, in the order of their first occurrence.
    pub(crate) fn entries(&self) -> &[Left] {
        &self.entries
    }

    /// Returns the events that the recorder reports as lost, and the line of the first report.
    pub(crate) fn lost_events(&self) -> (u64, u64) {
        self.lost
    }
}

impl Left {
    /// Returns whether the entry deserves a warning.
    pub(crate) fn is_dropped(&self) -> bool {
        self.class == Class::Dropped
    }
}
