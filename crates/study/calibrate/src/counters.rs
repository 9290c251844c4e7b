//! Counters of host and media bytes: parsing, and conversion to write amplification by 1/32 of a
//! capacity.
//!
//! The formats are
//! - CSV with the header `host_bytes,media_bytes`;
//! - JSON objects in a row, as nvme-cli prints them: `nvme fdp stats` (`hbmw`, `mbmw`), or both of
//!   `nvme smart-log` (`data_units_written`) and `nvme ocp smart-add-log` (physical media units
//!   written, log page C0h);
//! - metrics of `hostftl serve` as text, several scrapes in a row.
//!
//! All counters are totals over the life of a drive. The first record is the start of the log.

use serde_json::Value;
use thiserror::Error;

use crate::log::BINS;

/// Header of the CSV.
const HEADER: &str = "host_bytes,media_bytes";
/// Metrics of a drive.
const HOST_METRIC: &str = "hostftl_drive_written_bytes";
const MEDIA_METRIC: &str = "hostftl_drive_media_written_bytes";
/// Bytes of a data unit of the SMART log (NVMe base specification, SMART / Health Information).
const DATA_UNIT: f64 = 512_000.0;
/// Largest distance of records, in parts of 1/32 of a capacity. The curve between two records is
/// not known.
const APART: f64 = 2.0;

/// Reason why counters cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
#[allow(missing_docs, reason = "error texts describe the fields")]
pub enum CountersError {
    #[error(
        "line 1: not a log of a drive; expected a CSV header (host_bytes_per_capacity,waf or \
         {HEADER}), JSON of nvme-cli, or metrics of hostftl serve"
    )]
    Format,
    #[error("line {line}: expected two numbers, host bytes and media bytes")]
    Numbers { line: usize },
    #[error("line {line}: {why}")]
    Json { line: usize, why: String },
    #[error(
        "line {line}: no counter of written bytes; expected the output of 'nvme fdp stats', \
         'nvme smart-log' or 'nvme ocp smart-add-log', each with '-o json'"
    )]
    NoCounter { line: usize },
    #[error("line {line}: metrics of {other}, but those before are of {first}; keep one drive")]
    Drives { line: usize, first: String, other: String },
    #[error("the log has no {0} bytes; record both host and media bytes")]
    OneSided(&'static str),
    #[error(
        "line {line}: {counter} bytes decrease; a log must come from one drive, without a reset of \
         its counters"
    )]
    Decrease { line: usize, counter: &'static str },
    #[error(
        "line {line}: {part:.2} of the capacity was written since the record before; record at \
         least every 1/16 of the capacity"
    )]
    Apart { line: usize, part: f64 },
}

/// Counters at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    line: usize,
    host: f64,
    media: f64,
}

/// Counter that a part of a record has.
#[derive(Clone, Copy)]
enum Counter {
    Host(f64),
    Media(f64),
}

/// Records that are complete once both counters are known.
#[derive(Default)]
struct Samples {
    all: Vec<Sample>,
    host: Option<f64>,
    media: Option<f64>,
}

impl Samples {
    fn add(&mut self, line: usize, counter: Counter) {
        match counter {
            Counter::Host(bytes) => self.host = Some(bytes),
            Counter::Media(bytes) => self.media = Some(bytes),
        }
        if let (Some(host), Some(media)) = (self.host, self.media) {
            self.all.push(Sample { line, host, media });
            (self.host, self.media) = (None, None);
        }
    }

    fn finish(self) -> Result<Vec<Sample>, CountersError> {
        if self.all.is_empty() {
            let missing = if self.host.is_none() { "host" } else { "media" };
            return Err(CountersError::OneSided(missing));
        }
        Ok(self.all)
    }
}

/// Returns the write amplification of each 1/32 of a capacity, in bytes, from counters.
pub(crate) fn curve(text: &str, capacity: u64) -> Result<Vec<f64>, CountersError> {
    let samples = parse(text)?;
    let part = capacity as f64 / BINS as f64;
    let (start, mut curve) = (samples[0], Vec::new());
    let (mut reached, mut end) = (start.media, start.host + part);
    for pair in samples.windows(2) {
        let [before, after] = [pair[0], pair[1]];
        check(before, after, part)?;
        while after.host >= end {
            let share = (end - before.host) / (after.host - before.host);
            let media = before.media + share * (after.media - before.media);
            curve.push((media - reached) / part);
            (reached, end) = (media, end + part);
        }
    }
    Ok(curve)
}

fn check(before: Sample, after: Sample, part: f64) -> Result<(), CountersError> {
    let line = after.line;
    if after.host < before.host {
        return Err(CountersError::Decrease { line, counter: "host" });
    }
    if after.media < before.media {
        return Err(CountersError::Decrease { line, counter: "media" });
    }
    let written = (after.host - before.host) / part;
    if written > APART {
        return Err(CountersError::Apart { line, part: written / BINS as f64 });
    }
    Ok(())
}

fn parse(text: &str) -> Result<Vec<Sample>, CountersError> {
    let first = text.lines().find(|line| !line.trim().is_empty()).map_or("", str::trim);
    if first == HEADER {
        csv(text)
    } else if first.starts_with('{') {
        json(text)
    } else if first.starts_with('#') || first.starts_with("hostftl_") {
        metrics(text)
    } else {
        Err(CountersError::Format)
    }
}

fn csv(text: &str) -> Result<Vec<Sample>, CountersError> {
    let mut samples = Samples::default();
    let lines = text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty());
    for (index, text) in lines.skip(1) {
        let line = index + 1;
        let fields = text.split_once(',');
        let numbers = fields.and_then(|(host, media)| Some((number(host)?, number(media)?)));
        let (host, media) = numbers.ok_or(CountersError::Numbers { line })?;
        samples.add(line, Counter::Host(host));
        samples.add(line, Counter::Media(media));
    }
    samples.finish()
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0)
}

fn json(text: &str) -> Result<Vec<Sample>, CountersError> {
    let mut samples = Samples::default();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    loop {
        let rest = &text[values.byte_offset()..];
        let from = text.len() - rest.trim_start().len();
        let line = text[..from].matches('\n').count() + 1;
        let Some(value) = values.next() else { break };
        let value =
            value.map_err(|why| CountersError::Json { line: why.line(), why: why.to_string() })?;
        let found = counters(&value);
        if found.is_empty() {
            return Err(CountersError::NoCounter { line });
        }
        found.into_iter().for_each(|counter| samples.add(line, counter));
    }
    samples.finish()
}

/// Returns the counters of an object that nvme-cli printed.
fn counters(object: &Value) -> Vec<Counter> {
    let of = |key: &str| integer(&object[key]);
    let host = of("hbmw").or_else(|| of("data_units_written").map(|it| it * DATA_UNIT));
    let media = of("mbmw")
        .or_else(|| of("Physical media units written"))
        .or_else(|| of("physical_media_units_written"));
    host.map(Counter::Host).into_iter().chain(media.map(Counter::Media)).collect()
}

/// Returns an integer of nvme-cli: a number, a number as text, or two words.
fn integer(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => number(text),
        Value::Object(words) => {
            let word = |key: &str| words.get(key).and_then(Value::as_f64);
            Some(word("hi")? * 2.0_f64.powi(64) + word("lo")?)
        }
        _ => None,
    }
}

fn metrics(text: &str) -> Result<Vec<Sample>, CountersError> {
    let (mut samples, mut drive) = (Samples::default(), None);
    for (index, text) in text.lines().enumerate() {
        let line = index + 1;
        let Some((name, rest)) = text.split_once('{') else { continue };
        let counter: fn(f64) -> Counter = match name {
            HOST_METRIC => Counter::Host,
            MEDIA_METRIC => Counter::Media,
            _ => continue,
        };
        let (labels, value) = rest.split_once('}').ok_or(CountersError::Numbers { line })?;
        let value = value.split_whitespace().next().and_then(number);
        let first = drive.get_or_insert(labels);
        if *first != labels {
            let [first, other] = [*first, labels].map(str::to_owned);
            return Err(CountersError::Drives { line, first, other });
        }
        samples.add(line, counter(value.ok_or(CountersError::Numbers { line })?));
    }
    samples.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 3_200_000;
    /// Media bytes per host byte of the records that the tests make.
    const WAF: f64 = 2.5;

    /// Makes a log of `records` records, each a hundredth of the capacity after the one before.
    fn records(record: impl Fn(u64, u64) -> String) -> String {
        let bytes = |it: u64| 512_000 * 1_000 + it * CAPACITY / 100;
        let media = |host: u64| (host as f64 * WAF) as u64;
        (0..=100).map(|it| record(bytes(it), media(bytes(it)))).collect()
    }

    fn assert_read(text: &str) {
        let curve = curve(text, CAPACITY).expect("the log is valid");
        assert_eq!(curve.len(), BINS);
        assert!(curve.iter().all(|it| (it - WAF).abs() < 0.001), "{curve:?}");
    }

    #[test]
    fn each_format_is_read() {
        assert_read(&format!("{HEADER}\n{}", records(|host, media| format!("{host},{media}\n"))));
        assert_read(&records(|host, media| {
            format!("{{\n  \"hbmw\": \"{host}\",\n  \"mbmw\": {media},\n  \"mbe\": 0\n}}\n")
        }));
        assert_read(&records(|host, media| {
            let units = host as f64 / DATA_UNIT;
            format!(
                "{{\"data_units_written\":{units}}}\n{{\"Physical media units written\":\
                 {{\"hi\":0,\"lo\":{media}}}}}\n"
            )
        }));
        assert_read(&records(|host, media| {
            format!(
                "# HELP {HOST_METRIC} Host writes\n{HOST_METRIC}{{device=\"0\"}} {host} 1700000\n\
                 hostftl_requests_total 7\n{MEDIA_METRIC}{{device=\"0\"}} {media}\n"
            )
        }));
    }

    #[test]
    fn errors_name_the_line() {
        let why = |text: &str| curve(text, CAPACITY).unwrap_err();
        let csv = |rows: &str| why(&format!("{HEADER}\n{rows}"));
        assert_eq!(why("time,bytes\n"), CountersError::Format);
        assert_eq!(csv("1,2\n3;4\n"), CountersError::Numbers { line: 3 });
        assert_eq!(csv("1,2\n\n3,1\n"), CountersError::Decrease { line: 4, counter: "media" });
        assert_eq!(csv("1,2\n0,3\n"), CountersError::Decrease { line: 3, counter: "host" });
        assert!(matches!(csv("0,0\n400000,1\n"), CountersError::Apart { line: 3, .. }));
        assert_eq!(csv(""), CountersError::OneSided("host"));
        assert_eq!(why("{\"mbmw\":1}\n{\"mbmw\":2}"), CountersError::OneSided("host"));
        assert_eq!(
            why("{\"hbmw\":1,\"mbmw\":1}\n\n{\"temperature\":300}"),
            CountersError::NoCounter { line: 3 }
        );
        assert!(matches!(why("{\"hbmw\":1,\n\"mbmw\":]}"), CountersError::Json { line: 2, .. }));
        let two = format!("{HOST_METRIC}{{device=\"0\"}} 1\n{MEDIA_METRIC}{{device=\"1\"}} 1\n");
        assert!(matches!(why(&two), CountersError::Drives { line: 2, .. }));
    }
}
