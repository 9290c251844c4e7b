//! Notes of a reader: omitted lines and records, and suspicious times and addresses.

use std::collections::BTreeMap;

use hostftl_core::SECTOR;
use serde::Serialize;

use crate::compress::Compressibility;
use crate::file::TraceFile;
use crate::format::Format;
use crate::left::{Left, LeftOut};
use crate::record::{Op, Record};
use crate::text::events::device_name;
use crate::unit::Unit;

/// Request rate that no device reaches; a higher one means that the times are in a longer unit.
const TOO_MANY_PER_SECOND: u64 = 10_000_000;
/// Mean time between requests in ns that is implausible; a longer one means that the unit is
/// shorter.
const TOO_FAR_APART: u64 = 60_000_000_000;
/// Number of requests needed for a meaningful mean.
const ENOUGH: u64 = 100;

/// Number of requests from which on addresses that are all multiples of 512 are probably bytes.
const SAMPLE: u64 = 16;
/// Number of devices that are counted, and number that a message lists.
const MOST_DEVICES: usize = 1024;
const MOST_LISTED: usize = 8;

/// A position in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Line, or for a binary format record, from 1.
    pub line: u64,
    /// Column in bytes, from 1; 0 for a whole record.
    pub column: usize,
}

/// Addresses interpreted as sectors that may be bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// Option that decides it.
    pub option: &'static str,
    /// Whether lengths are numbers of sectors too.
    pub with_lengths: bool,
}

/// Notes so far, including the options that change the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Notes {
    /// Requests that did not begin or end at a sector boundary and were extended to it.
    pub widened: u64,
    /// Invalid lines or records that were skipped.
    pub bad: u64,
    /// Position of the first of them, and the expected content.
    pub first_bad: Option<(Place, &'static str)>,
    /// Requests to other devices than the selected one.
    pub others: u64,
    /// Everything else that was omitted, one entry for each kind.
    pub left_out: Vec<Left>,
    /// Events that the recorder reports as lost.
    pub lost: u64,
    /// Line of the first report of lost events.
    #[serde(skip)]
    first_lost: u64,
    /// Other notes about the file, one sentence each.
    #[serde(skip)]
    remarks: Vec<String>,
    /// Reason why there is no request, if the file explains it.
    #[serde(skip)]
    reason: Option<String>,
    /// Requests to other devices than the selected one, by device.
    #[serde(skip)]
    other_devices: BTreeMap<u32, u64>,
    /// Format, and the selected device.
    #[serde(skip)]
    asked: Option<(Format, Option<u32>)>,
    /// Doubt about the unit of addresses, if no option decides it.
    #[serde(skip)]
    doubt: Option<Doubt>,
    /// Bitwise OR of all addresses, and of all lengths.
    #[serde(skip)]
    bits: (u64, u64),
    /// Requests earlier than the previous one.
    pub backward: u64,
    /// Line of the first of them.
    pub first_backward: u64,
    /// Longest step back, in ns.
    #[serde(rename = "worst_backward_ns")]
    pub worst_backward: u64,
    /// Bytes added to every address.
    pub shift_bytes: u64,
    /// Number of repetitions of the trace; 0 for a synthetic workload.
    pub rounds: u32,
    /// Whether the addresses are packed densely.
    pub compacted: bool,
    /// Additional requests due to packing, which splits requests at granules that are no longer
    /// adjacent.
    pub split: u64,
    /// Compressibility of the written data that the user selected; it overrides that of the trace.
    pub compress: Option<Compressibility>,
    /// Settings of another program's file that the workload ignores, one sentence each.
    #[serde(skip)]
    pub left: Vec<String>,
    #[serde(skip)]
    records: u64,
    #[serde(skip)]
    first_ns: u64,
    #[serde(skip)]
    previous_ns: u64,
    #[serde(skip)]
    last_ns: u64,
    #[serde(skip)]
    unit: Option<Unit>,
    /// Start of the present round.
    #[serde(skip)]
    round_ns: u64,
}

impl Notes {
    /// Makes empty notes. The times of `file` are in `unit`.
    pub(crate) fn new(unit: Unit, file: &TraceFile, format: Format) -> Self {
        Notes {
            unit: Some(unit),
            asked: Some((format, file.dev)),
            shift_bytes: file.shift * SECTOR as u64,
            rounds: file.rounds,
            compress: file.compress,
            ..Notes::default()
        }
    }

    /// Makes notes of a workload without a format, which have only remarks.
    pub(crate) fn of_remarks(remarks: Vec<String>) -> Self {
        Notes { remarks, ..Notes::default() }
    }

    /// Sets the doubt about the unit of addresses.
    pub(crate) fn doubt_addresses(&mut self, doubt: Option<Doubt>) {
        self.doubt = doubt;
    }

    /// Returns the notes together with the reader's omitted records, remarks, and the reason why
    /// there is no request.
    pub(crate) fn with(
        &self,
        left: &LeftOut,
        remarks: Vec<String>,
        reason: Option<String>,
    ) -> Self {
        let (lost, first_lost) = left.lost_events();
        let left_out = left.entries().to_vec();
        Notes { left_out, lost, first_lost, remarks, reason, ..self.clone() }
    }

    /// Counts a request to a device that was not selected.
    #[cold]
    pub(crate) fn other(&mut self, dev: u32) {
        self.others += 1;
        if self.other_devices.len() < MOST_DEVICES || self.other_devices.contains_key(&dev) {
            *self.other_devices.entry(dev).or_default() += 1;
        }
    }

    /// Returns the reason why a trace has no requests, as a clause after a colon, or an empty
    /// string.
    pub fn emptiness(&self) -> String {
        if let Some((format, Some(dev))) = self.asked.filter(|_| self.others > 0) {
            let name = |dev: u32| {
                if format.has_kernel_devices() { device_name(dev) } else { dev.to_string() }
            };
            let mut devices: Vec<_> = self.other_devices.iter().collect();
            devices.sort_by_key(|(dev, count)| (u64::MAX - **count, **dev));
            let more = if devices.len() > MOST_LISTED { " …" } else { "" };
            let listed: Vec<_> = (devices.iter().take(MOST_LISTED))
                .map(|(dev, count)| format!("{} ({count})", name(**dev)))
                .collect();
            return format!(
                ": none is for dev={}; its devices are {}{more}",
                name(dev),
                listed.join(", ")
            );
        }
        let reason = self.reason.clone().or_else(|| match self.left_out() {
            parts if parts.is_empty() => None,
            parts => Some(format!("omitted: {}", parts.join(", "))),
        });
        reason.map_or(String::new(), |reason| format!(": {reason}"))
    }

    /// Returns everything that was omitted: a name and a number for each kind.
    pub fn left_out(&self) -> Vec<String> {
        let mut parts = Vec::new();
        let mut add = |count: u64, what: &str| {
            if count > 0 {
                parts.push(format!("{what} ({count})"));
            }
        };
        add(self.lost, "events lost by the recorder");
        add(self.bad, "bad lines");
        add(self.others, "requests to other devices");
        self.left_out.iter().for_each(|left| add(left.count, &left.what));
        parts
    }

    /// Returns the number of requests so far.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Returns the duration of the completed round in ns, including a mean gap, and starts the next
    /// round.
    pub(crate) fn round_ns(&mut self) -> u64 {
        let begin = if self.round_ns == 0 { self.first_ns } else { self.round_ns };
        let gap = (self.last_ns - self.first_ns.min(self.last_ns)) / self.records.max(1);
        let took = (self.last_ns - begin.min(self.last_ns)).saturating_add(gap);
        self.round_ns = begin.saturating_add(took);
        took
    }

    /// Adds a request that is passed on, from `line`.
    #[inline]
    pub(crate) fn record(&mut self, record: &Record, line: u64) {
        if self.records == 0 {
            (self.first_ns, self.previous_ns) = (record.t_ns, record.t_ns);
        }
        self.records += 1;
        if record.t_ns < self.previous_ns {
            self.step_back(record.t_ns, line);
        }
        if record.op != Op::Flush {
            self.bits = (self.bits.0 | record.lba, self.bits.1 | record.sectors);
        }
        self.previous_ns = record.t_ns;
        self.last_ns = self.last_ns.max(record.t_ns);
    }

    #[cold]
    fn step_back(&mut self, t_ns: u64, line: u64) {
        if self.backward == 0 {
            self.first_backward = line;
        }
        self.backward += 1;
        self.worst_backward = self.worst_backward.max(self.previous_ns - t_ns);
    }

    /// Counts an invalid line that is skipped.
    pub(crate) fn skip(&mut self, place: Place, expected: &'static str) {
        self.bad += 1;
        self.first_bad.get_or_insert((place, expected));
    }

    /// Returns warnings for the user, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut texts = self.left.clone();
        texts.extend(self.losses());
        if let Some((Place { line, column }, expected)) = self.first_bad {
            let place =
                if column > 0 { format!("line {line}:{column}") } else { format!("record {line}") };
            let bad = self.bad;
            texts.push(format!(
                "invalid lines omitted: {bad}; the first is {place}, where {expected} was expected"
            ));
        }
        if self.widened > 0 {
            let requests = if self.widened == 1 { "request" } else { "requests" };
            texts
                .push(format!("{} {requests} widened to whole sectors of 512 bytes", self.widened));
        }
        if self.backward > 0 {
            texts.push(format!(
                "the times are not sorted: {} of {} requests are earlier than their predecessor, \
                 the first in line {}, the worst by {}",
                self.backward,
                self.records,
                self.first_backward,
                seconds(self.worst_backward)
            ));
        }
        texts.extend(self.changes());
        texts.extend(self.unit_warning());
        texts
    }

    /// Returns the differences between the trace and the requests, one sentence each.
    fn losses(&self) -> Vec<String> {
        let mut texts = Vec::new();
        if self.lost > 0 {
            texts.push(format!(
                "the trace is incomplete: its recorder lost {} {}, the first message is in line {}",
                self.lost,
                if self.lost == 1 { "event" } else { "events" },
                self.first_lost
            ));
        }
        let dropped = self.left_out.iter().filter(|left| left.is_dropped());
        let dropped: Vec<_> = dropped
            .map(|left| format!("{} ({}, first in line {})", left.what, left.count, left.first))
            .collect();
        if !dropped.is_empty() {
            texts.push(format!("left out: {}", dropped.join(", ")));
        }
        texts.extend(self.remarks.iter().cloned());
        texts.extend(self.doubt_warning());
        texts
    }

    /// Returns a warning if addresses are probably bytes.
    fn doubt_warning(&self) -> Option<String> {
        let Doubt { option, with_lengths } = self.doubt.filter(|_| self.records >= SAMPLE)?;
        let (lba, sectors) = self.bits;
        let bits = if with_lengths { lba | sectors } else { lba };
        let names = if with_lengths { "addresses and lengths" } else { "addresses" };
        (lba > 0 && bits.is_multiple_of(512)).then(|| {
            format!(
                "all {names} are multiples of 512; state :{option}=bytes if they are bytes, \
                 otherwise :{option}=sectors"
            )
        })
    }

    /// Returns the changes that options make to the requests, one sentence each.
    fn changes(&self) -> Vec<String> {
        let mut texts = Vec::new();
        if self.shift_bytes > 0 {
            texts.push(format!("all addresses are shifted by {} bytes", self.shift_bytes));
        }
        if self.rounds > 1 {
            texts.push(format!("the trace is repeated {} times", self.rounds));
        }
        if self.compacted {
            let mut text = "the addresses are packed in pieces of 1 MiB".to_owned();
            if self.split > 0 {
                let split = self.split;
                text += &format!(
                    "; requests that cross the end of a piece are split ({split} more \
                     requests)"
                );
            }
            texts.push(text);
        }
        if let Some(compress) = self.compress {
            let by = match compress {
                Compressibility::Ratio(_) => "to a ratio of",
                Compressibility::Saved { .. } => "by",
            };
            texts.push(format!("the written data is assumed to compress {by} {compress}"));
        }
        texts
    }

    /// Returns a warning if the unit of the times is implausible.
    fn unit_warning(&self) -> Option<String> {
        let unit = self.unit?;
        let span = self.last_ns - self.first_ns.min(self.last_ns);
        if self.records < ENOUGH || span == 0 {
            return None;
        }
        let per_second = u128::from(self.records) * 1_000_000_000 / u128::from(span);
        let is_fast = per_second > u128::from(TOO_MANY_PER_SECOND);
        let is_slow = span / self.records > TOO_FAR_APART;
        let likely = match unit {
            _ if !is_fast && !is_slow => return None,
            Unit::Seconds if is_slow => Unit::Millis,
            Unit::Millis => {
                if is_fast {
                    Unit::Seconds
                } else {
                    Unit::Micros
                }
            }
            Unit::Micros => {
                if is_fast {
                    Unit::Millis
                } else {
                    Unit::Nanos
                }
            }
            Unit::Ticks => {
                if is_fast {
                    Unit::Micros
                } else {
                    Unit::Nanos
                }
            }
            Unit::Nanos if is_fast => Unit::Micros,
            Unit::Seconds | Unit::Nanos => return None,
        };
        Some(format!(
            "{} requests in {}: if the times are not in {unit}, state :time={likely}",
            self.records,
            seconds(span)
        ))
    }
}

/// Formats a duration in seconds with up to nine decimals.
fn seconds(ns: u64) -> String {
    let text = format!("{:.9}", ns as f64 / 1e9);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} s")
}
