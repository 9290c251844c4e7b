//! The paper's five workloads: traces of the user, or stand-ins.

use std::path::{Path, PathBuf};

use hostftl_trace::{Op, Record, Source, TraceError};

use super::cases::{LEAST, MISALIGNED};
use crate::traces::{Origin, SHIPPED, file};
use crate::{Error, Options};

/// Number of requests of a trace that are measured.
const TIMED: u64 = 400_000;

/// One of the paper's workloads.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    /// Name.
    pub name: &'static str,
    /// Origin.
    pub origin: Origin,
    /// Whether it is a trace without expected results, that is, not the shipped one.
    pub given: bool,
    /// Description.
    pub about: String,
    source: Source,
    /// Sectors by which its requests are shifted.
    shift: u64,
    /// Size of the data in sectors.
    pub data: u64,
    /// Number of requests that are measured.
    pub count: u64,
}

/// Workload of the paper's main figure.
pub(super) const HEADLINE: &str = "src1_0";

/// Name, data in GB, and stand-in. Its write share and mean size are published properties of the
/// trace; the skew is chosen.
const PAPER: [(&str, f64, &str); 5] = [
    ("Financial1", 0.53, "zipf:size=4k,read=23,theta=0.9"),
    ("tpcc-mysql", 0.65, "zipf:size=16k,read=40,theta=0.8"),
    ("prxy_0", 0.84, "zipf:size=4k,read=3,theta=1.1"),
    ("prxy_1", 13.75, "zipf:size=8k,read=65,theta=1.0"),
    (HEADLINE, 60.62, "uniform:size=16k,read=56"),
];

/// Returns the workloads: traces of these names if the folder has them, `mariadb-oltp` for
/// tpcc-mysql, and synthetic ones for the others. The stand-in of src1_0 is included twice, aligned
/// and misaligned.
pub(super) fn workloads(options: &Options) -> Result<Vec<Workload>, Error> {
    let all = PAPER.iter().skip(options.size.pick(2, 0, 0)).step_by(options.size.pick(2, 1, 1));
    let mut loads = Vec::new();
    for &(name, gb, synth) in all {
        let folder = options.traces.as_deref();
        if let Some((called, path)) = folder.and_then(|folder| trace(folder, name)) {
            loads.push(Workload::recorded(name, called, &path)?);
            continue;
        }
        let aligned = Workload::synthetic(name, gb, synth, options)?;
        if name == HEADLINE {
            let about = format!("{}, off by 31.5 KiB", aligned.about);
            let name = "src1_0, misaligned";
            loads.push(Workload { name, about, shift: MISALIGNED, ..aligned.clone() });
        }
        loads.push(aligned);
    }
    Ok(loads)
}

/// Returns the trace for the workload `name`, and the name of the file.
fn trace(folder: &Path, name: &'static str) -> Option<(&'static str, PathBuf)> {
    let names = match name {
        "tpcc-mysql" => &["tpcc-mysql", "tpcc", SHIPPED, "mariadb-oltp"][..],
        _ => &[name],
    };
    names.iter().find_map(|name| Some((*name, crate::traces::find(folder, name)?)))
}

fn failed(why: TraceError) -> Error {
    Error::Failed(why.to_string())
}

impl Workload {
    /// Opens the trace `called` in a file.
    fn recorded(name: &'static str, called: &str, path: &Path) -> Result<Self, Error> {
        let source: Source = path.display().to_string().parse().map_err(failed)?;
        let (mut data, mut count) = (0, 0);
        for record in source.open(0, true).map_err(failed)? {
            data = record.map_err(failed)?.end().max(data);
            count += 1;
        }
        let about = format!("{count} requests, addresses packed, of {}", file(path));
        let (origin, given) = (Origin::of(called), called != SHIPPED);
        let (data, count) = (data.next_multiple_of(8192), count.min(TIMED));
        Ok(Workload { name, origin, given, about, source, shift: 0, data, count })
    }

    /// Creates the stand-in of a trace.
    fn synthetic(
        name: &'static str,
        gb: f64,
        synth: &str,
        options: &Options,
    ) -> Result<Self, Error> {
        let scale = options.size.pick(256.0, 16.0, 1.0);
        let data = ((gb * 1e9 / 512.0 / scale) as u64).next_multiple_of(8192).max(LEAST);
        let size: u64 = match synth {
            _ if synth.contains("16k") => 32,
            _ if synth.contains("8k") => 16,
            _ => 8,
        };
        let count = (data / size).min(200_000);
        let text = format!("synth:{synth},span={}k,count={}", data / 2, 100 * data / size);
        let source: Source = text.parse().map_err(failed)?;
        let about = synth.to_owned();
        let origin = Origin::StandIn;
        Ok(Workload { name, origin, given: false, about, source, shift: 0, data, count })
    }

    /// Returns the requests without flushes, repeated endlessly.
    pub(super) fn requests(
        &self,
        seed: u64,
    ) -> Result<impl Iterator<Item = Record> + use<>, Error> {
        let source = self.source.clone();
        let mut stream = source.open(seed, true).map_err(failed)?;
        let mut round = 0;
        let endless = std::iter::from_fn(move || {
            loop {
                match stream.next() {
                    Some(Ok(record)) => return Some(record),
                    Some(Err(_)) => return None,
                    None => {
                        round += 1;
                        stream = source.open(seed + round, true).ok()?;
                    }
                }
            }
        });
        let (shift, data) = (self.shift, self.data);
        let moves = endless.filter(|record| matches!(record.op, Op::Read | Op::Write));
        let shifted = moves.map(move |record| Record { lba: record.lba + shift, ..record });
        Ok(shifted.filter(move |record| record.end() <= data))
    }
}
