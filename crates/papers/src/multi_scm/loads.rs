//! The workloads: synthetic ones by what is published of four MSR traces, and a real one.

use std::path::Path;

use hostftl_trace::{Op, Record, Source, TraceError};

use crate::Error;

/// Sectors of a page.
const PAGE: u64 = 32;
/// Pages of a MiB.
const PAGES_PER_MIB: u32 = 64;
/// Requests of the real trace that are played.
const REAL: u64 = 200_000;

/// One of the paper's workloads, as far as it is published.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Its name.
    pub name: &'static str,
    /// How the paper calls it.
    pub kind: &'static str,
    /// What stands in for it: write share, size and hotness as is told of the trace, the
    /// skew fitted.
    synth: &'static str,
    /// Its size here, and its requests.
    mib: u32,
    /// See `mib`.
    count: u64,
    /// Its published size in MiB: Table 1 of the LBA scrambler's paper, which uses the same trace;
    /// where that has none, sixteen times the size here.
    full_mib: u32,
    /// The published gains of cases 4 and 3 over case 1, in per cent, where there are any.
    pub gains: [Option<f64>; 2],
    /// The case that the paper chooses when life counts.
    pub choice: usize,
}

/// The paper's four workloads.
pub const PUBLISHED: [Published; 4] = [
    Published {
        name: "prxy_0",
        kind: "write-hot",
        synth: "synth:zipf:size=4k,read=3,theta=1.2",
        mib: 64,
        count: 400_000,
        full_mib: 801,
        gains: [Some(28.2), Some(14.0)],
        choice: 3,
    },
    Published {
        name: "hm_0",
        kind: "write-cold",
        synth: "synth:zipf:size=8k,read=36,theta=1.0",
        mib: 128,
        count: 160_000,
        full_mib: 2_048,
        gains: [Some(13.1), Some(7.6)],
        choice: 3,
    },
    Published {
        name: "prxy_1",
        kind: "read-hot",
        synth: "synth:zipf:size=8k,read=65,theta=1.1",
        mib: 64,
        count: 400_000,
        full_mib: 13_113,
        gains: [Some(10.7), None],
        choice: 4,
    },
    Published {
        name: "proj_3",
        kind: "read-cold",
        synth: "synth:sequential:size=8k,read=96",
        mib: 512,
        count: 160_000,
        full_mib: 8_192,
        gains: [Some(0.7), Some(0.6)],
        choice: 3,
    },
];

/// A workload that can be played.
#[derive(Clone, Debug)]
pub struct Load {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    source: Source,
    /// Pages of the user's data.
    pub pages: u32,
    /// Requests to play.
    pub count: u64,
}

impl Load {
    /// What stands in for a published workload, at the published size if `full`: with as many
    /// accesses of a page.
    pub fn synthetic(of: &Published, full: bool) -> Self {
        let mib = if full { of.full_mib } else { of.mib };
        let count = of.count * u64::from(mib) / u64::from(of.mib);
        let text = format!("{},span={mib}m,count={count}", of.synth);
        let source = text.parse().expect("it is checked by a test");
        let about = format!("{}: {text}", of.kind);
        Load { name: of.name.into(), about, source, pages: mib * PAGES_PER_MIB, count }
    }

    /// The same, of which only the first part is played.
    pub fn shorter(&self, by: u64) -> Self {
        Load { count: self.count / by, ..self.clone() }
    }

    /// The head of the database trace in a folder of traces, if it is there.
    ///
    /// # Errors
    /// When it is there and can't be read.
    pub fn database(folder: &Path) -> Result<Option<Self>, Error> {
        let names = ["mariadb-oltp-head.csv.zst", "mariadb-oltp.csv.zst"];
        let path = names.map(|name| folder.join(name)).into_iter().find(|path| path.exists());
        let Some(path) = path else { return Ok(None) };
        let failed = |why: TraceError| Error::Failed(why.to_string());
        let source: Source = path.display().to_string().parse().map_err(failed)?;
        let about = format!("the first {REAL} reads and writes of {}", path.display());
        let mut load = Load { name: "mariadb-oltp".into(), about, source, pages: 0, count: REAL };
        let mut end = 0;
        for record in load.open(0)? {
            end = record.map_err(failed)?.end().max(end);
        }
        load.pages = end.div_ceil(PAGE) as u32;
        Ok(Some(load))
    }

    /// The requests, without flushes: a multi-SCM SSD has nothing volatile.
    ///
    /// # Errors
    /// When a file can't be opened.
    pub fn open(
        &self,
        seed: u64,
    ) -> Result<impl Iterator<Item = Result<Record, TraceError>> + use<>, Error> {
        let stream = self.source.open(seed, true);
        let stream = stream.map_err(|why| Error::Failed(why.to_string()))?;
        let moves = |record: &Record| matches!(record.op, Op::Read | Op::Write);
        let wanted = move |record: &Result<Record, TraceError>| record.as_ref().map_or(true, moves);
        Ok(stream.filter(wanted).take(self.count as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_pages_are_accessed_forty_times_and_cold_ones_less() {
        for of in &PUBLISHED {
            let load = Load::synthetic(of, false);
            let records = load.open(1).unwrap();
            let accesses: u64 = records.map(|it| it.unwrap().sectors.div_ceil(PAGE)).sum();
            let mean = accesses / u64::from(load.pages);
            assert_eq!(mean >= 40, of.kind.ends_with("-hot"), "{}: {mean}", of.name);
        }
    }
}
