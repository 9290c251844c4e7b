//! The LBA scrambler: a layer that directs writes to the blocks that the drive will collect next.
//!
//! Source: Sun, Iwasaki, Soga, Johguchi and Takeuchi, "LBA Scrambler: A NAND Flash Aware Data
//! Management Scheme for High-Performance Solid-State Drives" (IEEE TVLSI), and its conference
//! abstract.

mod bench;
mod cases;
mod claims;
#[cfg(test)]
mod collection;
mod loads;
mod tables;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hostftl_layers::LayerConfig;

use crate::{Error, Findings, Options, Watch};
use bench::{Bench, Measured};
use cases::{PLAIN, REFERENCE, Reference, sizes};
use loads::{Workload, workloads};

/// Free capacities of the paper, in per cent.
const FREE: [u32; 4] = [20, 40, 60, 80];
/// The scrambler of the paper, whose unit is the LBA.
const LBA: &str = "scrambler:spare=0:slot=512";
/// Sectors per block.
const BLOCK: u64 = 8192;
/// Limits on the utilisation of a page, each with its scrambler; the default is 1.
const UTIL: [(f64, &str); 3] = [
    (0.25, "scrambler:spare=0:util=0.25"),
    (0.5, "scrambler:spare=0:util=0.5"),
    (0.75, "scrambler:spare=0:util=0.75"),
];

/// Studied thresholds of rules 1 and 2 (*sufficient* and *enough* in the paper), each with its
/// scrambler; the default of both is 0.
const THRESHOLDS: [(&str, &str); 6] = [
    ("sufficient 0.02", "scrambler:spare=0:sufficient=0.02"),
    ("sufficient 0.1", "scrambler:spare=0:sufficient=0.1"),
    ("sufficient 0.5", "scrambler:spare=0:sufficient=0.5"),
    ("enough 0.05", "scrambler:spare=0:enough=0.05"),
    ("enough 0.1", "scrambler:spare=0:enough=0.1"),
    ("enough 0.25", "scrambler:spare=0:enough=0.25"),
];

/// Figures without and with the scrambler.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pair {
    /// The drive alone.
    pub none: Measured,
    /// The drive under the scrambler.
    pub scrambled: Measured,
}

impl Pair {
    /// Returns the speed of requests, relative to the drive alone.
    pub(crate) fn gain(&self) -> f64 {
        self.none.us() / self.scrambled.us()
    }

    /// Returns the speed of writes, relative to the drive alone.
    pub(crate) fn write_gain(&self) -> f64 {
        ratio(self.none.write_us, self.scrambled.write_us)
    }

    /// Returns the duration of reads, relative to the drive alone.
    pub(crate) fn read_penalty(&self) -> f64 {
        ratio(self.scrambled.read_us, self.none.read_us)
    }

    /// Returns the change of a figure per request, in per cent; `None` if it is close to zero.
    pub(crate) fn change(&self, of: impl Fn(&Measured) -> f64) -> Option<f64> {
        let each = |it: &Measured| of(it) / it.requests.max(1) as f64;
        let (before, after) = (each(&self.none), each(&self.scrambled));
        (before > 1e-3).then(|| (after / before - 1.0) * 100.0)
    }
}

fn ratio(one: Option<f64>, other: Option<f64>) -> f64 {
    match (one, other) {
        (Some(one), Some(other)) if other > 0.0 => one / other,
        _ => f64::NAN,
    }
}

/// Writes of one size with slots of two lengths.
pub(crate) struct BySlot<'a> {
    /// The writes.
    pub case: &'a Reference,
    /// Figures with slots of 512 B.
    pub lba: &'a Pair,
    /// Figures with slots of 4 KiB.
    pub block: Pair,
    /// Slot in sectors that the first writes select.
    pub chosen: u32,
}

impl<'a> BySlot<'a> {
    fn all(
        cases: &'a [Reference],
        by_lba: &'a [Pair],
        by_block: Vec<Measured>,
        options: &Options,
    ) -> Vec<Self> {
        let pairs = cases.iter().zip(by_lba).zip(by_block);
        let of = |((case, lba), scrambled): ((&'a Reference, &'a Pair), Measured)| BySlot {
            case,
            lba,
            block: Pair { none: lba.none.clone(), scrambled },
            chosen: case.chosen_slot(Reference::data(options), options.seed),
        };
        pairs.map(of).collect()
    }

    /// Returns the figures with the selected slot, which is one of the two.
    pub(crate) fn by_chosen(&self) -> &Pair {
        match self.chosen {
            1 => self.lba,
            8 => &self.block,
            slot => unreachable!("no size here has a grain of {slot} sectors"),
        }
    }
}

/// A measurement.
enum Job<'a> {
    Case(&'a Reference, &'a str),
    Load(&'a Workload, u32, &'a str),
}

impl Job<'_> {
    fn name(&self) -> &str {
        match self {
            Job::Case(case, _) => case.name,
            Job::Load(load, ..) => load.name,
        }
    }

    /// Adds the name of the job to an error.
    fn named(&self, why: Error) -> Error {
        let (free, layer) = match self {
            Job::Case(case, layer) => (case.free, layer),
            Job::Load(_, free, layer) => (*free, layer),
        };
        match why {
            Error::Failed(why) => {
                Error::Failed(format!("{}, {free} % free, {layer}: {why}", self.name()))
            }
            why @ Error::Cancelled => why,
        }
    }

    /// Fills the drive, overwrites it twice (half as often with larger workloads), and measures.
    fn run(&self, options: &Options) -> Result<Measured, Error> {
        let (data, free, exported, layer) = match self {
            Job::Case(case, layer) => (Reference::data(options), case.free, case.exported, layer),
            Job::Load(load, free, layer) => (load.data, *free, 95.0, layer),
        };
        let blocks = (data as f64 / (1.0 - f64::from(free) / 100.0) / BLOCK as f64).ceil();
        let spec = bench::drive((blocks as u32).max(80), exported)?;
        let config = LayerConfig::parse(layer).map_err(Error::Failed)?;
        let mut bench = Bench::new(&spec, &config)?;
        let measured = match self {
            Job::Case(case, _) => {
                let count = (2 * data / case.size) as usize;
                bench.age(data, case.writes(data, options.seed).take(count))?;
                bench.measure(case.writes(data, options.seed + 1).take(count / 4))?
            }
            Job::Load(load, ..) => {
                let mut requests = load.requests(options.seed)?;
                let mut written = 0;
                let ageing = requests.by_ref().take_while(|record| {
                    written += record.sectors * u64::from(record.op == hostftl_trace::Op::Write);
                    written < 2 * data
                });
                bench.age(data, ageing)?;
                bench.measure(load.requests(options.seed + 1)?.take(load.count as usize))?
            }
        };
        bench.finish()?;
        Ok(measured)
    }
}

/// Runs the experiment.
pub(crate) fn run(options: &Options, watch: &dyn Watch) -> Result<Findings, Error> {
    let loads = workloads(options)?;
    let blind = "scrambler:spare=0:refresh=0";
    let mut jobs = vec![Job::Case(&REFERENCE[0], blind)];
    jobs.extend(UTIL.map(|(_, layer)| Job::Case(&REFERENCE[0], layer)));
    jobs.extend(THRESHOLDS.map(|(_, layer)| Job::Case(&REFERENCE[0], layer)));
    for case in &REFERENCE {
        jobs.extend([Job::Case(case, "none"), Job::Case(case, case.layer)]);
    }
    let cells = loads.iter().flat_map(|load| FREE.map(|free| (load, free)));
    for (load, free) in cells {
        jobs.extend([Job::Load(load, free, "none"), Job::Load(load, free, LBA)]);
    }
    let sizes = sizes();
    for case in &sizes {
        jobs.extend([Job::Case(case, "none"), Job::Case(case, case.layer)]);
    }
    jobs.extend(sizes.iter().map(|case| Job::Case(case, PLAIN)));
    let mut measured = run_all(&jobs, options, watch)?;
    let blind = measured.remove(0);
    let less_full: Vec<Measured> = measured.drain(..UTIL.len()).collect();
    let thresholds: Vec<Measured> = measured.drain(..THRESHOLDS.len()).collect();
    let by_block = measured.split_off(measured.len() - sizes.len());
    let pairs: Vec<Pair> = measured
        .chunks(2)
        .map(|two| Pair { none: two[0].clone(), scrambled: two[1].clone() })
        .collect();
    let (reference, rest) = pairs.split_at(REFERENCE.len());
    let (paper, by_lba) = rest.split_at(loads.len() * FREE.len());
    let by_slot = BySlot::all(&sizes, by_lba, by_block, options);
    let mut findings = Findings::new("LBA scrambler: writes into the block that is collected next");
    tables::settings(&mut findings, &loads, options);
    findings.sheets.push(tables::paper(&loads, paper));
    findings.sheets.push(tables::sizes(&by_slot));
    findings.sheets.push(tables::reference(reference));
    findings.sheets.push(tables::utilisation(&less_full, &reference[0]));
    findings.sheets.push(tables::thresholds(&thresholds, &reference[0]));
    findings.sheets.push(tables::inside(&loads, paper));
    findings.figures.push(tables::chart(&loads, paper));
    claims::add(&mut findings, reference, &blind);
    claims::paper(&mut findings.checks, &loads, paper, &by_slot);
    Ok(findings)
}

fn run_all(jobs: &[Job], options: &Options, watch: &dyn Watch) -> Result<Vec<Measured>, Error> {
    let (done, broken) = (AtomicUsize::new(0), AtomicBool::new(false));
    let costs = vec![hostftl_sim::Job::default(); jobs.len()];
    let results = hostftl_sim::run_jobs(&costs, u64::MAX, options.threads, |index| {
        if watch.cancelled() || broken.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let measured = jobs[index].run(options).map(Some).map_err(|why| {
            broken.store(true, Ordering::Relaxed);
            jobs[index].named(why)
        });
        let ended = done.fetch_add(1, Ordering::Relaxed) + 1;
        watch.progress(jobs[index].name(), ended, jobs.len());
        measured
    });
    let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    results.into_iter().collect::<Option<Vec<_>>>().ok_or(Error::Cancelled)
}
