//! HARD, mHATL, sHATL and ReSSD: host remapping for drives that map in superpages.
//!
//! Source: Choi and Shin, on host address remapping with little memory (mHATL, sHATL); Jang and
//! Shin, "HARD: Host-Level Address Remapping Driver for Solid-State Disk" (ICITCS 2011).

mod cells;
mod loads;
mod model;
mod tables;

use hostftl_sim::{Load, Row};

use crate::{Band, Check, Error, Findings, Options, Watch};
use cells::Rows;
pub use loads::drawn;
use loads::{REFERENCE, Reference, Scratch, footprint, parse, traces};
use model::Open;

/// The layers, in the order of the columns; the first is what the others are relative to. mHATL has
/// twice the leaves that the paper gives it (65,536 for 32 GiB); `hatl-auto` has its own default.
pub const LAYERS: [(&str, &str); 6] = [
    ("none", "none"),
    ("HARD", "hard"),
    ("mHATL", "mhatl:leaves=8192"),
    ("sHATL", "shatl:hidden=8m"),
    ("ReSSD", "shatl:hidden=8m:mode=ressd"),
    ("hatl-auto", "hatl-auto"),
];
/// Footprints of the sweep, in MiB.
const FOOTPRINTS: [u64; 8] = [16, 32, 64, 128, 256, 512, 1024, 1800];
/// Writes of a synthetic workload.
const WRITES: u64 = 200_000;
/// Workloads that are drawn from the seed, of half as many writes.
const DRAWN: usize = 12;

/// What was made: the rows of each workload, a row for each layer.
struct Made {
    reference: Vec<Rows>,
    sweep: Vec<Rows>,
    fresh: Vec<(String, Rows)>,
    real: Vec<(String, Rows)>,
}

impl Made {
    fn new(writes: u64, options: &Options, watch: &dyn Watch) -> Result<Self, Error> {
        let scratch = Scratch::new(writes, options.seed)?;
        let mut loads = Vec::new();
        for case in &REFERENCE {
            loads.push(scratch.load(case, writes)?);
        }
        for mib in FOOTPRINTS {
            loads.push(footprint(mib, writes)?);
        }
        let texts = drawn(options.seed, DRAWN, writes / 2);
        for text in &texts {
            loads.push(parse(text.trim_start_matches("synth:"), text)?);
        }
        let traces = traces(options.traces.as_deref())?;
        let [mut reference, real] = cells::make(&loads, &traces, options, watch)?;
        let mut sweep = reference.split_off(REFERENCE.len());
        let fresh = texts.into_iter().zip(sweep.split_off(FOOTPRINTS.len())).collect();
        let name = |(drive, load): (&str, Load)| format!("{}, on {drive}", load.name);
        let real = traces.into_iter().map(name).zip(real).collect();
        Ok(Made { reference, sweep, fresh, real })
    }

    /// The rows of all workloads.
    fn all(&self) -> impl Iterator<Item = &Rows> {
        let named = self.fresh.iter().chain(&self.real).map(|(_, rows)| rows);
        self.reference.iter().chain(&self.sweep).chain(named)
    }
}

/// Makes the experiment.
///
/// # Errors
/// When a trace can't be read, a law is broken, or nobody waits.
pub fn run(options: &Options, watch: &dyn Watch) -> Result<Findings, Error> {
    let writes = if options.full { 10 * WRITES } else { WRITES };
    let made = Made::new(writes, options, watch)?;
    let mut findings = Findings::new("HARD, mHATL, sHATL: host remapping for superpage drives");
    tables::settings(&mut findings, writes, options);
    findings.sheets.push(tables::reference(&made.reference));
    let open = REFERENCE.map(|case| Open::new(&case.stream, writes));
    findings.sheets.push(tables::model(&made.reference, &open, writes));
    findings.sheets.push(tables::sweep(&made.sweep));
    findings.sheets.push(tables::drawn(&made.fresh, options.seed));
    for (case, rows) in REFERENCE.iter().zip(&made.reference) {
        findings.sheets.push(tables::split(case.name, rows));
    }
    for (name, rows) in &made.real {
        findings.sheets.push(tables::split(name, rows));
    }
    findings.figures.push(tables::bars(&made.reference));
    findings.figures.push(tables::lines(&made.sweep));
    checks(&mut findings, &made, &open);
    promise(&mut findings, made.all());
    Ok(findings)
}

/// Busy time relative to no layer.
fn busy(row: &Row) -> f64 {
    row.busy_ratio.unwrap_or(f64::NAN)
}

fn checks(findings: &mut Findings, Made { reference, sweep, .. }: &Made, open: &[Open]) {
    for ((case, rows), open) in REFERENCE.iter().zip(reference).zip(open) {
        for (index, reference) in case.busy.iter().enumerate() {
            let (layer, ours) = (LAYERS[index + 1].0, busy(&rows[index + 1]));
            let what = format!("busy time of {layer}, {} (reference model)", case.name);
            let check = Check::near(what, *reference, ours, 25.0);
            findings.checks.push(check.because(why(layer, case, open)));
        }
    }
    let least = FOOTPRINTS.iter().zip(sweep).find(|(mib, _)| **mib == 64);
    let hard = least.map_or(f64::NAN, |(_, rows)| busy(&rows[1]));
    let what = "busy time of HARD, uniform writes, by theory 800/(16 * 860)";
    findings.checks.push(Check::new(what, Some(0.0581), hard, Band::around(0.0581, 10.0)));
    let (small, large) = (&sweep[0], &sweep[sweep.len() - 1]);
    let what = "sHATL and mHATL near HARD need a small footprint: growth from 16 MiB to 1800 MiB";
    let growth = (busy(&large[3]) / busy(&small[3])).min(busy(&large[2]) / busy(&small[2]));
    findings.checks.push(Check::new(what, None, growth, Band::AtLeast(2.0)));
    findings.lead = format!(
        "HARD keeps the drive busy for {:.3} of the time without a layer (published up to 8 times \
         as fast), sHATL for {:.2} and mHATL for {:.2}, with 4 KiB writes over 64 MiB; beyond a \
         footprint that their memory can hold both lose, and the sweep shows where.",
        busy(&reference[0][1]),
        busy(&reference[0][3]),
        busy(&reference[0][2])
    );
}

/// Busy time of `hatl-auto` relative to the better of mHATL and sHATL.
fn beside_best(rows: &[Row]) -> f64 {
    busy(&rows[5]) / busy(&rows[2]).min(busy(&rows[3]))
}

/// What `hatl-auto` promises, on every cell, and how far it is from HARD.
fn promise<'a>(findings: &mut Findings, cells: impl Iterator<Item = &'a Rows>) {
    let cells: Vec<_> = cells.collect();
    let hard = cells.iter().map(|rows| busy(&rows[5]) / busy(&rows[1])).fold(0.0, f64::max);
    let worst = cells.iter().max_by(|one, other| beside_best(one).total_cmp(&beside_best(other)));
    let Some(rows) = worst else { return };
    let what = "busy time of hatl-auto beside the better of mHATL and sHATL, worst cell of all";
    let check = Check::new(what, None, beside_best(rows), Band::AtMost(1.05));
    let memory = |row: &Row| (row.map_bytes + row.meta_bytes) >> 10;
    let all_mapped = busy(&rows[2]) < 1.1 * busy(&rows[1]);
    let because = all_mapped.then(|| format!(
        "in {}, where mHATL takes {:.2} of HARD's time: twice the leaves that the paper gives it \
         are just enough there to map every piece that is written, so that it gathers next to \
         nothing. It takes {} KiB of memory for that with all its tables, and hatl-auto {} KiB",
        rows[5].workload,
        busy(&rows[2]) / busy(&rows[1]),
        memory(&rows[2]),
        memory(&rows[5])
    ));
    findings.checks.push(match because {
        Some(why) => check.because(why),
        None => check,
    });
    let above = cells.iter().filter(|rows| beside_best(rows) > 1.05).count();
    findings.notes.push(format!(
        "hatl-auto keeps the drive busy for more than 1.05 of the time of the better of mHATL and \
         sHATL in {above} of {} cells, and for at most {hard:.2} of the time of HARD.",
        cells.len()
    ));
}

/// Why a figure differs from the reference.
fn why(layer: &str, case: &Reference, open: &Open) -> String {
    match layer {
        "mHATL" => format!(
            "{}the reference does not say how many writes there are, nor what was mapped before: \
             by these the model made again gives {:.2} to {:.2}",
            case.open, open.range.0, open.range.1
        ),
        "sHATL" => {
            "of its small hidden area ours keeps 16 superpages free or in limbo, and log with its \
             padding takes a part of the others: the model without these is as far off"
                .into()
        }
        _ => "map log and checkpoints are in ours and not in the reference".into(),
    }
}
