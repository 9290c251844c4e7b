//! Workloads: synthetic ones from published properties of four MSR traces, and recorded traces.

use std::path::Path;

use hostftl_trace::{Op, Record, Source, TraceError};

use crate::traces::{Origin, file};
use crate::{Error, Options};

/// Sectors per page.
const PAGE: u64 = 32;
/// Pages per MiB.
const PAGES_PER_MIB: u32 = 64;
/// Requests of a recorded trace that are played at the quick size.
const QUICK: u64 = 20_000;
/// Requests of a recorded trace that are played at the usual size.
const REAL: u64 = 400_000;
/// Requests of prxy_0 in the MSR Cambridge traces: the lines of its file.
const PRXY_0: u64 = 12_518_968;
/// Requests of the database trace that are played.
const DATABASE: u64 = 200_000;
/// Maximum size of the data in pages: 8 TiB.
const MOST_PAGES: u32 = 1 << 29;

/// Published properties of one of the paper's workloads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    /// Name.
    pub name: &'static str,
    /// Class in the paper.
    pub kind: &'static str,
    /// Synthetic stand-in. Write share, size and hotness follow published properties of the trace;
    /// the skew is fitted.
    synth: &'static str,
    /// Size of the stand-in in MiB.
    mib: u32,
    /// Requests of the stand-in.
    count: u64,
    /// Published size in MiB, from Table 1 of the LBA scrambler's paper, which uses the same
    /// traces. Where the table has none, sixteen times the size of the stand-in.
    full_mib: u32,
    /// Published gains of cases 4 and 3 over case 1 in per cent, if any.
    pub gains: [Option<f64>; 2],
    /// Case that the paper chooses for the longest life.
    pub choice: usize,
}

/// The paper's four workloads.
pub(super) const PUBLISHED: [Published; 4] = [
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

/// A playable workload.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// Name.
    pub name: String,
    /// Origin.
    pub origin: Origin,
    /// Description.
    pub about: String,
    source: Source,
    /// Pages of user data.
    pub pages: u32,
    /// Ratio of the published size to this one; 1 if it is not scaled down.
    pub scaled: u32,
    /// Number of requests to play.
    pub count: u64,
}

impl Load {
    /// Returns the paper's four workloads: the trace if the folder contains it, else the stand-in.
    pub(super) fn all(options: &Options) -> Result<Vec<Self>, Error> {
        let folder = options.traces.as_deref();
        let load = |of: &Published| match folder.and_then(|it| crate::traces::find(it, of.name)) {
            Some(path) => {
                let most = options.size.pick(QUICK, REAL, u64::MAX);
                Self::recorded(of.name, Origin::Real, &path, most)
            }
            None => Ok(Self::synthetic(of, options.full())),
        };
        PUBLISHED.iter().map(load).collect()
    }

    /// Opens the first reads and writes of a trace, at most `most`. The memories are sized for the
    /// data that these touch.
    fn recorded(name: &str, origin: Origin, path: &Path, most: u64) -> Result<Self, Error> {
        let failed = |why: TraceError| Error::Failed(why.to_string());
        let source: Source = path.display().to_string().parse().map_err(failed)?;
        let about = String::new();
        let (name, pages, scaled) = (name.into(), 0, 1);
        let mut load = Load { name, origin, about, source, pages, scaled, count: most };
        let (mut end, mut count) = (0, 0);
        for record in load.open(0)? {
            end = record.map_err(failed)?.end().max(end);
            count += 1;
        }
        if count == 0 {
            let why = format!(
                "{}: the trace has no reads and no writes; use another trace",
                path.display()
            );
            return Err(Error::Failed(why));
        }
        let pages = u32::try_from(end.div_ceil(PAGE)).ok().filter(|pages| *pages <= MOST_PAGES);
        load.pages = pages.ok_or_else(|| {
            Error::Failed(format!(
                "{}: the trace touches more than 8 TiB; use another trace",
                path.display()
            ))
        })?;
        let whole = if count < most { "all" } else { "the first" };
        let mib = u64::from(load.pages) / u64::from(PAGES_PER_MIB);
        load.count = count;
        load.about = format!(
            "{whole} {count} reads and writes of {}, addresses packed into {mib} MiB",
            file(path)
        );
        Ok(load)
    }

    /// Returns the stand-in of a published workload, at the published size if `full`, with the same
    /// number of accesses per page.
    pub(super) fn synthetic(of: &Published, full: bool) -> Self {
        let mib = if full { of.full_mib } else { of.mib };
        Self::made(of, mib, of.count * u64::from(mib) / u64::from(of.mib))
    }

    /// Returns the stand-in of prxy_0 with the size and the length of the trace.
    pub(super) fn whole_prxy_0() -> Self {
        Self::made(&PUBLISHED[0], PUBLISHED[0].full_mib, PRXY_0)
    }

    /// Returns a stand-in of `mib` MiB with `count` requests.
    fn made(of: &Published, mib: u32, count: u64) -> Self {
        let text = format!("{},span={mib}m,count={count}", of.synth);
        let source = text.parse().expect("a test checks the workload");
        let about = format!("{}: {text}", of.kind);
        let (name, pages, scaled) = (of.name.into(), mib * PAGES_PER_MIB, of.full_mib / mib);
        Load { name, origin: Origin::StandIn, about, source, pages, scaled, count }
    }

    /// Returns whether it is a recorded trace.
    pub(super) fn is_real(&self) -> bool {
        self.origin.is_recorded()
    }

    /// Returns the first part of the workload, shorter by the factor `by`.
    pub(super) fn shorter(&self, by: u64) -> Self {
        Load { count: self.count / by, ..self.clone() }
    }

    /// Returns the database trace in a folder, if it is there.
    pub(super) fn database(folder: &Path) -> Result<Option<Self>, Error> {
        let names = ["mariadb-oltp-head.csv.zst", "mariadb-oltp.csv.zst"];
        let path = names.map(|name| folder.join(name)).into_iter().find(|path| path.exists());
        let Some(path) = path else { return Ok(None) };
        Self::recorded("mariadb-oltp", Origin::Another, &path, DATABASE).map(Some)
    }

    /// Returns the requests without flushes, because a multi-SCM SSD has no volatile data.
    pub(super) fn open(
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
    use crate::Size;

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

    #[test]
    fn published_traces_take_the_place_of_their_stand_ins() {
        let folder = tempfile::tempdir().unwrap();
        let msr =
            |at: u64| format!("{},prxy,0,Write,{},4096,100", 128_166_372 + at, (at % 50) << 14);
        let msr: Vec<String> = (0..500).map(msr).collect();
        std::fs::write(folder.path().join("prxy_0.csv"), msr.join("\n")).unwrap();
        let plain = (0..300).map(|at| format!("{at},{},{},8192\n", ["R", "W"][at % 2], at << 14));
        let text = format!("t_us,op,byte_off,byte_len\n{}", plain.collect::<String>());
        std::fs::write(folder.path().join("Proj_3.CSV"), text).unwrap();
        let traces = Some(folder.path().to_owned());
        let mut options =
            Options { size: Size::Quick, sweep: false, traces, threads: 1, seed: 1, commit: "" };
        let all = Load::all(&options).unwrap();
        let real: Vec<bool> = all.iter().map(Load::is_real).collect();
        assert_eq!(real, [true, false, false, true]);
        assert_eq!((all[0].count, all[3].count), (500, 300));
        assert_eq!(all[0].open(1).unwrap().count(), 500);
        assert!(all[0].pages >= 13 && all[0].pages <= 50, "{}", all[0].about);
        assert!(all[0].about.starts_with("all 500 reads and writes of "), "{}", all[0].about);
        options.traces = None;
        assert!(Load::all(&options).unwrap().iter().all(|load| !load.is_real()));
        std::fs::write(folder.path().join("hm_0.csv"), "t_us,op,byte_off,byte_len\n").unwrap();
        options.traces = Some(folder.path().to_owned());
        let why = Load::all(&options).unwrap_err().to_string();
        assert!(why.contains("hm_0.csv"), "{why}");
    }
}
