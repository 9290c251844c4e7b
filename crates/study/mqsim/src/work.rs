//! A definition of workloads: scenarios of flows, each generated or read from a trace.

use roxmltree::Node;

use super::keys::{At, Keys};
use super::{Fault, WORK, document, line};

const SCENARIO: &str = "IO_Scenario";
const MADE: &str = "IO_Flow_Parameter_Set_Synthetic";
const PLAYED: &str = "IO_Flow_Parameter_Set_Trace_Based";

/// A flow of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Line in the file, from 1.
    pub line: usize,
    /// Source of the requests.
    pub kind: Kind,
    /// Settings that were ignored, one sentence each.
    pub left: Vec<String>,
}

/// Source of a flow's requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Generated requests.
    Made(Made),
    /// Requests of a trace.
    Played(Played),
}

/// A generated flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Made {
    /// Distribution of the addresses.
    pub addresses: Addresses,
    /// Percentage of the flow's share of the drive that is touched, 1 to 100.
    pub working_set: u32,
    /// Percentage of reads.
    pub read: u32,
    /// Sectors of a request; the mean if requests differ.
    pub sectors: u64,
    /// Rate of the requests.
    pub rate: Rate,
    /// Number of requests; `None` if the flow ends at a time, or never.
    pub count: Option<u64>,
}

/// Distribution of a flow's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Sequential.
    Streaming,
    /// Uniform.
    Uniform,
    /// The first `hot` per cent of the addresses receive 100 − `hot` per cent of the requests.
    HotCold {
        /// Percentage of the addresses, 1 to 100.
        hot: u32,
    },
}

/// Rate of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Constant number of requests in flight.
    UnderWay(u32),
    /// Bytes per second.
    Bandwidth(u64),
}

/// A flow that is read from a trace with DiskSim's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// Path of the trace as given in the file.
    pub path: String,
    /// Unit of its times.
    pub unit: TimeUnit,
    /// Number of repetitions, at least 1.
    pub rounds: u32,
}

/// Unit of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// 10^-9 s.
    Nanos,
    /// 10^-6 s.
    Micros,
}

/// Returns the flows of each scenario. There is at least one scenario, and each has at least one
/// flow.
///
/// # Errors
/// The line that is wrong: invalid XML, another kind of file, or a missing or invalid key.
pub fn scenarios(text: &str) -> Result<Vec<Vec<Flow>>, Fault> {
    let document = document(text, WORK)?;
    let root = document.root_element();
    let mut all = Vec::new();
    for scenario in elements(root) {
        expect(&scenario, &[SCENARIO])?;
        let flows: Result<Vec<Flow>, Fault> = elements(scenario).map(flow).collect();
        let flows = flows?;
        if flows.is_empty() {
            return Err(Fault { line: line(&scenario), why: format!("{SCENARIO} has no flow") });
        }
        all.push(flows);
    }
    if all.is_empty() {
        Err(Fault { line: line(&root), why: format!("{WORK} has no {SCENARIO}") })
    } else {
        Ok(all)
    }
}

fn elements<'a>(node: Node<'a, 'a>) -> impl Iterator<Item = Node<'a, 'a>> {
    node.children().filter(Node::is_element)
}

fn expect(node: &Node, names: &[&str]) -> Result<(), Fault> {
    let found = node.tag_name().name();
    let why = || format!("expected {}, found {found}", names.join(" or "));
    if names.contains(&found) { Ok(()) } else { Err(Fault { line: line(node), why: why() }) }
}

fn flow(node: Node) -> Result<Flow, Fault> {
    expect(&node, &[MADE, PLAYED])?;
    let mut keys = Keys::of(node, &[])?;
    let mut left = Vec::new();
    let kind = match node.tag_name().name() {
        MADE => Kind::Made(made(&mut keys, &mut left)?),
        _ => Kind::Played(played(&mut keys, &mut left)?),
    };
    let flow = keys.line();
    for (names, why) in OF_ALL {
        left.extend(keys.leave(names, why));
    }
    left.extend(keys.others());
    Ok(Flow { line: flow, kind, left })
}

/// Keys of every flow without a counterpart, and the reason.
const OF_ALL: [(&[&str], &str); 4] = [
    (&["Priority_Class"], "requests have no priorities"),
    (
        &["Device_Level_Data_Caching_Mode"],
        "the write buffer is set by the key write_buffer_kib of the drive",
    ),
    (
        &["Channel_IDs", "Chip_IDs", "Die_IDs", "Plane_IDs"],
        "a flow uses the whole drive; hostftl targets divides a raw drive",
    ),
    (&["Initial_Occupancy_Percentage"], "a study states the initial state of the drive (--warm)"),
];

fn percent(key: &str, found: Option<At<u32>>) -> Result<Option<u32>, Fault> {
    match found {
        Some(At { line, value }) if value > 100 => {
            Err(Fault { line, why: format!("{key} must be from 0 to 100") })
        }
        other => Ok(other.map(|it| it.value)),
    }
}

fn made(keys: &mut Keys, left: &mut Vec<String>) -> Result<Made, Fault> {
    let At { line, value: sectors } = keys.needed::<u64>("Average_Request_Size")?;
    if sectors == 0 || sectors > 1 << 31 {
        let why = "Average_Request_Size must be at least 1 sector and below 2^31".into();
        return Err(Fault { line, why });
    }
    let sizes = [("FIXED", true), ("NORMAL", false)];
    let fixed = keys.lookup("Request_Size_Distribution", &sizes)?;
    // The variance has no effect if all requests have the same size.
    keys.word("Variance_Request_Size");
    if let Some(At { line, value: false }) = fixed {
        left.push(format!(
            "not carried over: Request_Size_Distribution (line {line}) and Variance_Request_Size: \
             all requests have the mean size"
        ));
    }
    let working_set = percent("Working_Set_Percentage", keys.number("Working_Set_Percentage")?)?;
    let read = percent("Read_Percentage", keys.number("Read_Percentage")?)?;
    let made = Made {
        addresses: addresses(keys)?,
        // As in MQSim, 0 and a missing key mean the whole share.
        working_set: working_set.filter(|it| *it > 0).unwrap_or(100),
        read: read.unwrap_or(0),
        sectors,
        rate: rate(keys, left)?,
        count: count(keys, left)?,
    };
    alignment(keys, &made, left)?;
    left.extend(keys.leave(&["Seed"], "a study has one seed (--seed)"));
    Ok(made)
}

fn addresses(keys: &mut Keys) -> Result<Addresses, Fault> {
    let hot = percent("Percentage_of_Hot_Region", keys.number("Percentage_of_Hot_Region")?)?;
    let known = [
        ("STREAMING", Addresses::Streaming),
        ("RANDOM_UNIFORM", Addresses::Uniform),
        ("RANDOM_HOTCOLD", Addresses::HotCold { hot: 0 }),
    ];
    let found = keys.lookup("Address_Distribution", &known)?;
    let missing =
        || Fault { line: keys.line(), why: format!("{MADE} has no Address_Distribution") };
    let At { line, value } = found.ok_or_else(missing)?;
    match (value, hot) {
        (Addresses::HotCold { .. }, Some(hot @ 1..=100)) => Ok(Addresses::HotCold { hot }),
        (Addresses::HotCold { .. }, _) => {
            let why = "RANDOM_HOTCOLD needs a Percentage_of_Hot_Region from 1 to 100".into();
            Err(Fault { line, why })
        }
        (other, _) => Ok(other),
    }
}

/// Converts the rate of requests, with a sentence about the difference.
fn rate(keys: &mut Keys, left: &mut Vec<String>) -> Result<Rate, Fault> {
    let known = [("QUEUE_DEPTH", false), ("BANDWIDTH", true)];
    let by_bandwidth = keys.lookup("Synthetic_Generator_Type", &known)?;
    let depth = keys.number::<u32>("Average_No_of_Reqs_in_Queue")?;
    let bandwidth = keys.number::<u64>("Bandwidth")?;
    let Some(At { line, value: true }) = by_bandwidth else {
        let depth = depth.map_or(1, |it| it.value);
        left.push(format!(
            "not carried over: Average_No_of_Reqs_in_Queue: use --closed-loop {depth} for this \
             queue depth"
        ));
        return Ok(Rate::UnderWay(depth));
    };
    let missing = || Fault { line, why: "BANDWIDTH needs the key Bandwidth, above 0".into() };
    let bandwidth = bandwidth.filter(|it| it.value > 0).ok_or_else(missing)?;
    left.push(format!(
        "not carried over: random arrival times (Bandwidth, line {}): requests arrive evenly",
        bandwidth.line
    ));
    Ok(Rate::Bandwidth(bandwidth.value))
}

/// Converts the number of requests. As in MQSim, a stop time takes precedence.
fn count(keys: &mut Keys, left: &mut Vec<String>) -> Result<Option<u64>, Fault> {
    let end = keys.number::<u64>("Stop_Time")?.filter(|it| it.value > 0);
    let total = keys.number::<u64>("Total_Requests_To_Generate")?;
    if let Some(At { line, .. }) = end {
        left.push(format!(
            "not carried over: Stop_Time (line {line}): a workload ends after a number of \
             requests; state count=N after the file name"
        ));
        return Ok(None);
    }
    Ok(total.map(|it| it.value).filter(|count| *count > 0))
}

/// Reports the alignment if it differs from ours: requests are aligned to their size.
fn alignment(keys: &mut Keys, made: &Made, left: &mut Vec<String>) -> Result<(), Fault> {
    let aligned = keys.flag("Generated_Aligned_Addresses").is_some_and(|it| it.value);
    let unit = keys.number::<u64>("Address_Alignment_Unit")?;
    let same = aligned && unit.is_none_or(|it| it.value == made.sectors);
    if !same && made.addresses != Addresses::Streaming {
        let line = unit.map_or(String::new(), |it| format!(" (line {})", it.line));
        left.push(format!(
            "not carried over: Generated_Aligned_Addresses and Address_Alignment_Unit{line}: \
             requests are aligned to their size"
        ));
    }
    Ok(())
}

fn played(keys: &mut Keys, left: &mut Vec<String>) -> Result<Played, Fault> {
    let path = keys.word("File_Path").filter(|it| !it.value.is_empty());
    let missing = || Fault { line: keys.line(), why: format!("{PLAYED} has no File_Path") };
    let path = path.ok_or_else(missing)?.value.to_owned();
    let units = [
        ("NANOSECOND", Some(TimeUnit::Nanos)),
        ("MICROSECOND", Some(TimeUnit::Micros)),
        ("PICOSECOND", None),
    ];
    let unit = match keys.lookup("Time_Unit", &units)? {
        Some(At { line, value: None }) => {
            return Err(Fault { line, why: "times in PICOSECOND are not supported".into() });
        }
        Some(At { value: Some(unit), .. }) => unit,
        None => TimeUnit::Nanos,
    };
    let rounds = keys.number::<u32>("Relay_Count")?.map_or(1, |it| it.value.max(1));
    let part = percent("Percentage_To_Be_Executed", keys.number("Percentage_To_Be_Executed")?)?;
    if part.is_some_and(|part| part < 100) {
        left.push("not carried over: Percentage_To_Be_Executed: the whole trace is played".into());
    }
    Ok(Played { path, unit, rounds })
}
