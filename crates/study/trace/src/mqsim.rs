//! Workloads defined in MQSim's XML files. A flow becomes a synthetic workload, or the trace that
//! it names.

use std::path::{Path, PathBuf};

use hostftl_core::{SECTOR, Size};
use hostftl_mqsim::{Addresses, Flow, Kind, Made, Played, Rate, TimeUnit};

use crate::error::TraceError;
use crate::file::TraceFile;
use crate::format::Format;
use crate::source::{Source, Told};
use crate::unit::Unit;
use crate::workload::{amount, workload};

/// File name extension of such a file.
const ENDING: &str = ".xml";
/// Requests of a flow without a number of requests.
const COUNT: u64 = 100_000;

/// Options after the file's name.
#[derive(Default)]
struct Options {
    /// Number of the scenario, from 1.
    scenario: Option<u64>,
    /// Number of the flow in the scenario, from 1.
    flow: Option<u64>,
    /// Bytes of the drive to which the working set percentage applies.
    capacity: Option<u64>,
    /// Number of requests.
    count: Option<u64>,
}

/// Returns the source named by `text`, or `None` if `text` is not an XML file.
pub(crate) fn source(text: &str) -> Result<Option<Source>, TraceError> {
    let Some((path, options)) = parted(text) else { return Ok(None) };
    let wrong = |why: String| TraceError::Options { text: text.to_owned(), why };
    let options = Options::parse(options).map_err(wrong)?;
    let xml = hostftl_core::files::read_text(path)
        .map_err(|source| TraceError::Open { path: path.to_owned(), source })?;
    let scenarios = hostftl_mqsim::scenarios(&xml).map_err(|fault| TraceError::Definition {
        path: path.to_owned(),
        line: fault.line,
        why: fault.why,
    })?;
    let mut left = Vec::new();
    let flows = chosen(&scenarios, options.scenario, "scenario", &mut left).map_err(wrong)?;
    let flow = chosen(flows, options.flow, "flow", &mut left).map_err(wrong)?;
    left.extend(flow.left.iter().cloned());
    let plain = match &flow.kind {
        Kind::Made(made) => {
            let text = made_text(made, &options, flows.len() as u64, &mut left).map_err(wrong)?;
            Source::Synth(workload(&text).map_err(wrong)?)
        }
        Kind::Played(played) => {
            for (key, is_there) in
                [("capacity", options.capacity.is_some()), ("count", options.count.is_some())]
            {
                if is_there {
                    return Err(wrong(format!(
                        "{key} has no effect on a flow with a trace; omit it"
                    )));
                }
            }
            Source::File(played_file(played, path, flow, &mut left))
        }
    };
    Ok(Some(Source::Told(Box::new(Told { plain, left }))))
}

/// Splits the file from the options after it.
fn parted(text: &str) -> Option<(&Path, &str)> {
    let lower = text.to_ascii_lowercase();
    let (end, options) = match lower.find(&format!("{ENDING}:")) {
        Some(at) => (at + ENDING.len(), &text[at + ENDING.len() + 1..]),
        None => (text.len(), ""),
    };
    lower[..end].ends_with(ENDING).then(|| (Path::new(&text[..end]), options))
}

impl Options {
    fn parse(text: &str) -> Result<Self, String> {
        let mut options = Options::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let place = match key {
                "scenario" => &mut options.scenario,
                "flow" => &mut options.flow,
                "capacity" => &mut options.capacity,
                "count" => &mut options.count,
                _ => {
                    let known = "use scenario, flow, capacity or count";
                    return Err(format!("'{key}' is not an option of an XML file; {known}"));
                }
            };
            let number = match key {
                "capacity" => Size::parse(value).map(Size::bytes),
                _ => amount(value),
            };
            let number = number.filter(|number| *number > 0);
            let wrong =
                || format!("{option}: expected a number above 0, optionally with k, m or g");
            *place = Some(number.ok_or_else(wrong)?);
        }
        Ok(options)
    }
}

/// Returns the selected element of `all`, or the first one. In the latter case a note in `left`
/// mentions the others.
fn chosen<'a, T>(
    all: &'a [T],
    wanted: Option<u64>,
    kind: &str,
    left: &mut Vec<String>,
) -> Result<&'a T, String> {
    if wanted.is_none() && all.len() > 1 {
        left.push(format!("{kind} 1 of {} is played; use {kind}=N for another", all.len()));
    }
    let number = wanted.unwrap_or(1);
    let place = usize::try_from(number - 1).ok().and_then(|at| all.get(at));
    place.ok_or_else(|| format!("{kind}={number} does not exist; the file has {}", all.len()))
}

/// Returns the text of our synthetic workload for a flow that MQSim generates. The drive is shared
/// by `flows` flows.
fn made_text(
    made: &Made,
    options: &Options,
    flows: u64,
    left: &mut Vec<String>,
) -> Result<String, String> {
    let size = made.sectors * SECTOR as u64;
    let capacity = options.capacity.ok_or(
        "Working_Set_Percentage refers to the size of the drive, which this file does not \
         contain; state it, as in workload.xml:capacity=29g",
    )?;
    let share = u128::from(capacity / flows) * u128::from(made.working_set) / 100;
    let span = share as u64 / size * size;
    if span == 0 {
        return Err(format!("capacity={capacity} leaves no room for a request of {size} bytes"));
    }
    let count = options.count.or(made.count).unwrap_or_else(|| {
        left.push(format!("{COUNT} requests are generated; use count=N for more"));
        COUNT
    });
    let (pattern, hot) = match made.addresses {
        Addresses::Streaming => ("sequential", String::new()),
        Addresses::Uniform => ("uniform", String::new()),
        Addresses::HotCold { hot } => ("hotcold", format!(",hot={hot},share={}", 100 - hot)),
    };
    let iops = match made.rate {
        Rate::UnderWay(_) => 0,
        Rate::Bandwidth(bytes) => (bytes / size).max(1),
    };
    let read = made.read;
    Ok(format!("{pattern}:size={size},span={span},count={count},read={read},iops={iops}{hot}"))
}

/// Returns the trace of a flow. Its path is resolved relative to the definition first.
fn played_file(played: &Played, xml: &Path, flow: &Flow, left: &mut Vec<String>) -> TraceFile {
    let beside = xml.parent().map(|folder| folder.join(&played.path));
    let path = beside.filter(|path| path.exists()).unwrap_or(PathBuf::from(&played.path));
    let place = format!("the flow in line {}", flow.line);
    left.push(format!("{place} is the trace {}", path.display()));
    let time = match played.unit {
        TimeUnit::Nanos => Unit::Nanos,
        TimeUnit::Micros => Unit::Micros,
    };
    let (format, time) = (Some(Format::DiskSim), Some(time));
    TraceFile { format, time, rounds: played.rounds, ..TraceFile::new(path) }
}
