//! HARD, mHATL, sHATL and ReSSD: host remapping for drives with superpages.
//!
//! Source: Choi and Shin, on host address remapping with little memory (mHATL, sHATL); Jang and
//! Shin, "HARD: Host-Level Address Remapping Driver for Solid-State Disk" (ICITCS 2011).

mod cells;
mod claims;
mod loads;
mod model;
mod replay;
mod tables;

use std::sync::atomic::{AtomicUsize, Ordering};

use hostftl_sim::{Pace, Row};

use crate::stage::stages;
use crate::{Error, Findings, Options, Watch};
use cells::{Group, Layers, Rows};
pub use loads::drawn;
use loads::{REFERENCE, Reference, Scratch, footprint, parse, replayed, traces};
use model::Open;
use replay::Replayed;

/// Configuration of the paper: 32 GiB, 65,536 leaves (256 KiB), 128 MiB of hidden area. The first
/// layer is the baseline.
const SEED: [(&str, &str); 7] = [
    ("none", "none"),
    ("HARD", "hard"),
    ("mHATL", "mhatl:leaves=65536"),
    ("mHATL, VSP", "mhatl:leaves=65536:gather=vsp"),
    ("sHATL", "shatl:hidden=128m"),
    ("ReSSD", "shatl:hidden=128m:mode=ressd"),
    ("hatl-auto", "hatl-auto"),
];
/// The same configuration with a sixteenth of the drive and of the memory.
const SCALED: [(&str, &str); 7] = [
    ("none", "none"),
    ("HARD", "hard"),
    ("mHATL", "mhatl:leaves=4096"),
    ("mHATL, VSP", "mhatl:leaves=4096:gather=vsp"),
    ("sHATL", "shatl:hidden=8m"),
    ("ReSSD", "shatl:hidden=8m:mode=ressd"),
    ("hatl-auto", "hatl-auto:budget=256k"),
];
/// Scale factor between the two.
const SCALE: u64 = 16;
/// Configuration of the reference model: a drive of 2 GiB, and twice the leaves of the scaled
/// configuration.
pub const LAYERS: [(&str, &str); 6] = [
    ("none", "none"),
    ("HARD", "hard"),
    ("mHATL", "mhatl:leaves=8192"),
    ("sHATL", "shatl:hidden=8m"),
    ("ReSSD", "shatl:hidden=8m:mode=ressd"),
    ("hatl-auto", "hatl-auto:budget=256k"),
];
/// Drives of the published and the scaled size.
const DRIVES: [&str; 2] = ["hatl-32g", "hatl-2g"];
/// Footprints of the sweep in MiB, a sixteenth of the published ones.
const FOOTPRINTS: [u64; 7] = [4, 16, 32, 64, 256, 1024, 1600];
/// Footprint of the uniform workload at the published size, in MiB.
const UNIFORM: u64 = 256;

/// Writes of the reference model, and of the experiment compared with it, at every size. The
/// model's drive never collects garbage. Ten times this number would overwrite the small drive four
/// times, and the copies of its own garbage collection would distort the comparison.
const MODELLED: u64 = 200_000;

/// Approximate shares of the duration: the layers, and the model.
const PARTS: [u64; 2] = [20, 1];

/// Extent of the experiment.
struct Extent {
    /// Workloads of the reference model.
    cases: Vec<&'static Reference>,
    /// Writes of each random workload.
    drawn_writes: u64,
    /// Writes of the sweep.
    swept: u64,
    /// Writes of the uniform workload at the published size; `None` if it is scaled.
    uniform: Option<u64>,
    /// Footprints of the sweep in MiB.
    footprints: Vec<u64>,
    /// Number of random workloads.
    drawn: usize,
}

impl Extent {
    fn of(options: &Options) -> Self {
        let (uniform, all) = (Some(1_000_000), FOOTPRINTS.to_vec());
        let pick = |quick, usual, full| options.size.pick(quick, usual, full);
        Extent {
            cases: REFERENCE.iter().step_by(options.size.pick(2, 1, 1)).collect(),
            drawn_writes: pick(100_000, 100_000, 1_000_000),
            swept: pick(50_000, 200_000, 2_000_000),
            uniform: options.size.pick(None, uniform, uniform),
            footprints: options.size.pick(vec![4, 256], all.clone(), all),
            drawn: pick(0, 12, 12) as usize,
        }
    }
}

/// Results: rows of each workload, one per layer.
struct Made {
    /// Uniform writes and real traces at the published size.
    seed: Vec<(String, Rows)>,
    /// Files of the real traces.
    files: Vec<String>,
    /// The shipped trace on the model.
    replayed: Option<Replayed>,
    /// Whether the published size is scaled to a sixteenth.
    scaled: bool,
    sweep: Vec<(u64, Rows)>,
    reference: Vec<(&'static Reference, Rows)>,
    drawn: Vec<(String, Rows)>,
}

impl Made {
    fn new(extent: &Extent, options: &Options, watch: &dyn Watch) -> Result<Self, Error> {
        let scratch = Scratch::new(MODELLED, options.seed)?;
        let reference = extent.cases.iter().map(|case| scratch.load(case, MODELLED));
        let scaled = extent.uniform.is_none();
        let (mib, writes) = match extent.uniform {
            Some(writes) => (UNIFORM, writes),
            None => (UNIFORM / SCALE, extent.swept),
        };
        let folder = options.traces.as_deref().filter(|_| !scaled);
        let (real, files) = traces(folder)?;
        let replayed = replayed(folder)?;
        let sweep = extent.footprints.iter().map(|mib| footprint(*mib, extent.swept));
        let texts = drawn(options.seed, extent.drawn, extent.drawn_writes);
        let short = |text: &String| text.trim_start_matches("synth:").to_owned();
        let drawn = texts.iter().map(|text| parse(&short(text), text));
        let group = |small: bool, layers: &'static Layers, loads, pace| Group {
            drive: DRIVES[usize::from(small)],
            layers,
            loads,
            pace,
        };
        let seed: &Layers = if scaled { &SCALED } else { &SEED };
        let groups = [
            group(scaled, seed, real, Pace::Trace),
            group(scaled, seed, vec![footprint(mib, writes)?], Pace::Closed(16)),
            group(true, &SCALED, sweep.collect::<Result<_, _>>()?, Pace::Closed(16)),
            group(true, &LAYERS, reference.collect::<Result<_, _>>()?, Pace::Closed(16)),
            group(true, &LAYERS, drawn.collect::<Result<_, _>>()?, Pace::Closed(16)),
        ];
        let names = groups
            .each_ref()
            .map(|group| group.loads.iter().map(|load| load.name.clone()).collect::<Vec<String>>());
        let rows: [Vec<Rows>; 5] = cells::make(&groups, options, watch)?
            .try_into()
            .unwrap_or_else(|_| unreachable!("rows for each group"));
        let [real, uniform, sweep, reference, drawn] = rows;
        let [real_names, uniform_names, _, _, drawn_names] = names;
        let names = real_names.into_iter().chain(uniform_names);
        Ok(Made {
            seed: names.zip(real.into_iter().chain(uniform)).collect(),
            files,
            replayed,
            scaled,
            sweep: extent.footprints.iter().copied().zip(sweep).collect(),
            reference: extent.cases.iter().copied().zip(reference).collect(),
            drawn: drawn_names.into_iter().zip(drawn).collect(),
        })
    }

    /// Returns the rows of real traces.
    fn real(&self) -> &[(String, Rows)] {
        &self.seed[..self.seed.len() - 1]
    }

    /// Returns the rows of uniform writes at the published size.
    fn uniform(&self) -> &Rows {
        &self.seed[self.seed.len() - 1].1
    }
}

/// Runs the experiment.
///
/// # Errors
/// If a trace can't be read, a law is violated, or the experiment is cancelled.
pub fn run(options: &Options, watch: &dyn Watch) -> Result<Findings, Error> {
    let extent = Extent::of(options);
    let parts = stages(watch, PARTS);
    let made = Made::new(&extent, options, &parts[0])?;
    let mut findings = Findings::new("HARD, mHATL, sHATL: host remapping for superpage drives");
    tables::settings(&mut findings, &extent, &made);
    let costs = vec![hostftl_sim::Job::default(); extent.cases.len()];
    let done = AtomicUsize::new(0);
    let open = hostftl_sim::run_jobs(&costs, u64::MAX, options.threads, |index| {
        let case = extent.cases[index];
        let open = Open::new(&case.stream, MODELLED);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        parts[1].progress(&format!("model of {}", case.name), done, extent.cases.len());
        open
    });
    findings.sheets.push(tables::seed(&made));
    tables::origins(&mut findings, &made);
    findings.sheets.push(tables::reference(&made.reference));
    findings.sheets.push(tables::model(&made.reference, &open));
    findings.sheets.push(tables::sweep(&made.sweep));
    if !made.drawn.is_empty() {
        findings.sheets.push(tables::drawn(&made.drawn, options.seed));
    }
    for (name, rows) in &made.seed {
        findings.sheets.push(tables::split(name, rows));
    }
    tables::add_parts(&mut findings, &made);
    findings.figures.push(tables::bars(&made.seed));
    findings.figures.push(tables::lines(&made.sweep));
    claims::add(&mut findings, &made, &open);
    Ok(findings)
}

/// Returns the busy time relative to the drive without a layer.
fn busy(row: &Row) -> f64 {
    row.busy_ratio.unwrap_or(f64::NAN)
}

/// Returns the row of a layer of [`SEED`] or [`SCALED`].
fn of<'a>(rows: &'a Rows, layer: &str) -> &'a Row {
    let at = SEED.iter().position(|(name, _)| *name == layer);
    &rows[at.expect("one of the layers")]
}
