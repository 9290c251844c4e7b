//! Workloads of the reference model, of the footprint sweep, and real traces.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use hostftl_sim::Load;
use hostftl_trace::{Source, TraceError};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::model::Stream;
use super::replay::Replayed;
use crate::Error;
use crate::traces::SHIPPED;

/// Superpages of the hidden area in the paper: 128 MiB.
const HIDDEN_SEED: u32 = 2048;

/// Real traces; the first is shipped.
const TRACES: [&str; 10] = [
    SHIPPED,
    "mariadb-oltp",
    "cloudphysics-vm",
    "prxy_0",
    "prxy_1",
    "hm_0",
    "proj_3",
    "src1_0",
    "Financial1",
    "tpcc",
];

/// A workload with the busy times of HARD, mHATL and sHATL in the reference model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    /// Name in snake case.
    pub short: &'static str,
    /// Name.
    pub name: &'static str,
    /// Pattern and span; `None` for the mixture, which is generated as a file.
    synth: Option<&'static str>,
    /// The same workload for the reference model.
    pub stream: Stream,
    /// Busy times of HARD, mHATL and sHATL.
    pub busy: [f64; 3],
}

/// Workloads of the reference: an independent model of the description, with a drive of 2 GiB, a
/// cap of 8192 leaves and 8 MiB of hidden area.
pub(super) const REFERENCE: [Reference; 4] = [
    Reference {
        short: "uniform_64m",
        name: "uniform over 64 MiB",
        synth: Some("uniform:size=4k,span=64m"),
        stream: Stream { blocks: 1 << 14, hot: 0, share: 0, large: 0 },
        busy: [0.057, 0.203, 0.37],
    },
    Reference {
        short: "uniform_256m",
        name: "uniform over 256 MiB",
        synth: Some("uniform:size=4k,span=256m"),
        stream: Stream { blocks: 1 << 16, hot: 0, share: 0, large: 0 },
        busy: [0.057, 1.095, 0.71],
    },
    Reference {
        short: "hot_256m",
        name: "90 % of writes to 5 %, 256 MiB",
        synth: Some("hotcold:size=4k,span=256m,hot=5,share=90"),
        stream: Stream { blocks: 1 << 16, hot: (1 << 16) / 20, share: 90, large: 0 },
        busy: [0.055, 0.213, 0.24],
    },
    Reference {
        short: "hot_256m_large",
        name: "the same + 5 % sequential 256 KiB",
        synth: None,
        stream: Stream { blocks: 1 << 16, hot: (1 << 16) / 20, share: 85, large: 5 },
        busy: [0.21, 1.543, 0.35],
    },
];

/// Parses a workload and sets its display name.
pub(super) fn parse(name: &str, text: &str) -> Result<Load, Error> {
    let load = Load::parse(text).map_err(|why| Error::Failed(why.to_string()))?;
    Ok(Load { name: name.into(), ..load })
}

/// Returns the real traces in a folder, and the file of each.
pub(super) fn traces(folder: Option<&Path>) -> Result<(Vec<Load>, Vec<String>), Error> {
    let files = TRACES.iter().filter_map(|name| {
        let path = crate::traces::find(folder?, name)?;
        let load = parse(name, &path.display().to_string());
        Some(load.map(|load| (load, crate::traces::file(&path))))
    });
    files.collect()
}

/// Plays the shipped trace on the model, if the folder contains it.
pub(super) fn replayed(folder: Option<&Path>) -> Result<Option<Replayed>, Error> {
    let path = folder.and_then(|folder| crate::traces::find(folder, SHIPPED));
    let Some(path) = path else { return Ok(None) };
    let failed = |why: TraceError| Error::Failed(why.to_string());
    let source: Source = path.display().to_string().parse().map_err(failed)?;
    let records = source.open(0, true).map_err(failed)?;
    Replayed::new(records, HIDDEN_SEED).map(Some).map_err(failed)
}

/// Returns uniform writes over `mib` MiB.
pub(super) fn footprint(mib: u64, writes: u64) -> Result<Load, Error> {
    let text = format!("synth:uniform:size=4k,span={mib}m,count={writes}");
    parse(&format!("uniform over {mib} MiB"), &text)
}

/// Returns `count` random synthetic workloads of `writes` writes each.
pub fn drawn(seed: u64, count: usize, writes: u64) -> Vec<String> {
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut pick = |list: &[&'static str]| list[dice.random_range(0..list.len())];
    let mut draw = |_| {
        let pattern = pick(&["uniform", "zipf", "skew", "moving", "mix", "sequential"]);
        let (size, span) =
            (pick(&["4k", "4k", "4k", "8k", "16k"]), pick(&["16m", "64m", "128m", "256m", "512m"]));
        let (flush, hot) = (pick(&["0", "0", "20", "100"]), pick(&["2", "5", "20"]));
        let share = pick(&["60", "80", "90"]);
        let skew = match pattern {
            "skew" | "moving" => format!(",hot={hot},share={share}"),
            _ => String::new(),
        };
        let unit = format!("size={size},span={span},flush={flush}{skew}");
        format!("synth:{pattern}:{unit},count={writes}")
    };
    (0..count).map(&mut draw).collect()
}

/// A temporary trace file with the mixture.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Writes the file. Five of every hundred requests are sequential writes of 256 KiB in the
    /// second 256 MiB of the drive.
    pub(super) fn new(writes: u64, seed: u64) -> Result<Self, Error> {
        let name = format!("hostftl-paper-{}-{seed}.csv", std::process::id());
        let scratch = Scratch(std::env::temp_dir().join(name));
        scratch
            .fill(writes, seed)
            .map_err(|why| Error::Failed(format!("{}: {why}", scratch.0.display())))?;
        Ok(scratch)
    }

    fn fill(&self, writes: u64, seed: u64) -> std::io::Result<()> {
        const SPAN: u64 = 256 << 20;
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut out = BufWriter::new(fs::File::create(&self.0)?);
        writeln!(out, "t_us,op,byte_off,byte_len")?;
        let (blocks, mut next) = (SPAN >> 12, 0);
        for at in 0..writes {
            let (from, len) = match dice.random_range(0..100) {
                0..5 => {
                    next = (next + (256 << 10)) % SPAN;
                    (SPAN + next, 256 << 10)
                }
                5..90 => (dice.random_range(0..blocks / 20) << 12, 4096),
                _ => (dice.random_range(blocks / 20..blocks) << 12, 4096),
            };
            writeln!(out, "{at},W,{from},{len}")?;
        }
        out.flush()
    }

    /// Returns the workload of a case.
    pub(super) fn load(&self, case: &Reference, writes: u64) -> Result<Load, Error> {
        match case.synth {
            Some(synth) => parse(case.name, &format!("synth:{synth},count={writes}")),
            None => parse(case.name, &self.0.display().to_string()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
