//! Figures 5 and 6: the effect of the interleave on a stream under LightNVM.

use hostftl_report::{Axis, Lines};
use hostftl_trace::Op;

use super::SIZES;
use super::bench::{Bench, Driver, Walk};
use super::closed;
use crate::{Band, Cell, Check, Error, Findings, Known, Sheet};

/// Interleaves in KiB.
const WIDTHS: [u32; 7] = [4, 8, 16, 32, 64, 128, 2048];
/// Positions of 16 to 128 KiB in [`WIDTHS`]. 2 MiB follows.
const WIDE: std::ops::Range<usize> = 2..6;
/// Best interleaves in the paper for writes of 4, 64 and 128 KiB.
const BEST_WRITES: [u32; 3] = [8, 128, 128];

/// Explanation of the best interleave for writes.
const JUMPS: &str = "three effects matter: the time of a chip per KiB, which is least in pieces of \
                     128 KiB; the jump at the start of each stripe, which two writes of a stripe \
                     share; and the limit of six commands in progress, which favours long pieces";

fn sweep(op: Op, kib: u32, seed: u64) -> Result<Vec<f64>, Error> {
    let speed = |width: u32| {
        let mut bench = Bench::new(Driver::LightNvm, op, Walk::Sequential, kib);
        bench.spec.interleave = width * 2;
        bench.run(seed).map(|found| found.mbs)
    };
    WIDTHS.into_iter().map(speed).collect()
}

/// Returns the greatest and the least of some speeds.
fn extremes(speeds: &[f64]) -> (f64, f64) {
    let most = speeds.iter().copied().fold(0.0, f64::max);
    (most, speeds.iter().copied().fold(f64::INFINITY, f64::min))
}

/// Returns the smallest of the fastest widths.
fn best(speeds: &[f64]) -> u32 {
    let most = extremes(speeds).0;
    let at = speeds.iter().position(|speed| *speed >= most * 0.999);
    WIDTHS[at.expect("a fastest interleave exists")]
}

/// Returns whether no width is faster than this one by more than one per cent.
fn is_best(speeds: &[f64], width: u32) -> bool {
    let most = extremes(speeds).0;
    let at = WIDTHS.iter().position(|it| *it == width);
    speeds[at.expect("the interleave is one of the widths")] >= most * 0.99
}

/// Adds a table and a chart for reads and for writes.
pub(super) fn add(findings: &mut Findings, seed: u64) -> Result<(), Error> {
    let mut writes = Vec::new();
    for (op, name) in [(Op::Read, "read"), (Op::Write, "write")] {
        let title = format!("Sequential {name} under LightNVM by interleave (MB/s)");
        let mut sheet = Sheet::new(format!("interleave_{name}"), title.clone())
            .input(["request (KiB)"])
            .ours(WIDTHS.map(|width| format!("{width} KiB")))
            .ours(["ours, best (KiB)"])
            .published(["published, best (KiB)"]);
        let whole = |value: f64| format!("{value:.0}");
        let mut lines =
            Lines::new(&title, Axis::log("interleave, KiB", whole), Axis::linear("MB/s", whole));
        for (index, kib) in SIZES.into_iter().enumerate() {
            let speeds = sweep(op, kib, seed)?;
            let stated = match (op, kib) {
                (Op::Write, _) => Some(BEST_WRITES[index]),
                (_, 64) => Some(16),
                (_, 128) => Some(32),
                _ => None,
            };
            let mut row = vec![Cell::Number(f64::from(kib), 0)];
            row.extend(speeds.iter().map(|&speed| Cell::Number(speed, 1)));
            row.push(Cell::Number(f64::from(best(&speeds)), 0));
            row.push(stated.map_or("flat".into(), |width| Cell::Number(f64::from(width), 0)));
            sheet.row(row);
            let points = WIDTHS.iter().map(|&width| f64::from(width)).zip(speeds.iter().copied());
            lines = lines.series(&format!("{kib} KiB"), points.collect());
            match op {
                Op::Read => claim_reads(findings, kib, stated, &speeds),
                _ => writes.push(speeds),
            }
        }
        findings.sheets.push(sheet);
        findings.figures.push(lines.figure());
    }
    claim_writes(findings, &writes);
    notes(findings);
    Ok(())
}

/// Adds the claims about writes of 4, 64 and 128 KiB.
fn claim_writes(findings: &mut Findings, writes: &[Vec<f64>]) {
    let sizes = || writes.iter().zip(BEST_WRITES);
    let met = sizes().filter(|(speeds, best)| is_best(speeds, *best)).count();
    let alone = sizes()
        .filter(|(speeds, best)| WIDTHS.iter().filter(|width| is_best(speeds, **width)).eq([best]));
    let fastest = "request sizes, of 3, that no interleave writes faster than the published best";
    let only = "request sizes, of 3, that the published interleave alone writes fastest";
    for (name, claim, ours) in [
        ("write_interleaves_fastest", fastest, met),
        ("write_interleaves_only_fastest", only, alone.count()),
    ] {
        let known = Known::new(3.0, "section 4.2");
        let check = Check::near_published(name, claim, known, ours as f64, 0.0);
        findings.checks.push(check.because(JUMPS));
    }
    let ratios = writes[0][1..].windows(2).map(|pair| pair[1] / pair[0]);
    let claim = "4 KiB writes from 8 KiB on: an interleave over the next narrower one, at most";
    let check = Check::new("write_4k_wider", claim, ratios.fold(0.0, f64::max), Band::AtMost(1.0));
    let why = "section 4.2: slower with each wider interleave; fewer chips are busy";
    findings.checks.push(check.because(why));
}

fn claim_reads(findings: &mut Findings, kib: u32, stated: Option<u32>, speeds: &[f64]) {
    let (most, least) = extremes(speeds);
    let Some(width) = stated else {
        let claim = format!("{kib} KiB reads: fastest over slowest interleave");
        let check =
            Check::new(format!("read_{kib}k_flat"), claim, most / least, Band::AtMost(1.01));
        let known = Known::new(1.0, "section 4.2: almost no influence");
        findings.checks.push(check.published(known));
        return;
    };
    let claim = format!("{kib} KiB reads: the best interleave, in KiB");
    let known = Known::new(width.into(), "section 4.2");
    let ours = f64::from(best(speeds));
    let name = format!("read_{kib}k_best_interleave");
    findings.checks.push(Check::near_published(name, claim, known, ours, 0.0));
    let (slowest, narrow) = (extremes(&speeds[WIDE]).1, extremes(&speeds[..WIDE.start]).0);
    let claim = format!("{kib} KiB reads: the slowest of 16 to 128 KiB over the faster of 4 and 8");
    let name = format!("read_{kib}k_wide_over_narrow");
    let check = Check::new(name, claim, slowest / narrow, Band::AtLeast(1.01));
    findings.checks.push(check.because(
        "section 4.2: higher. Each piece costs the host time, and with 4 or 8 KiB a chip serves \
         several pieces of a request",
    ));
    let claim = format!("{kib} KiB reads: 2 MiB over the slowest of 16 to 128 KiB");
    let name = format!("read_{kib}k_2m");
    let check = Check::new(name, claim, speeds[WIDE.end] / slowest, Band::AtMost(0.9));
    findings.checks.push(check.because(format!(
        "section 4.2: very low, without a figure; {:.2} of the speed at the best interleave",
        speeds[WIDE.end] / most
    )));
}

/// Adds the notes on inferred parameters.
fn notes(findings: &mut Findings) {
    let [low, high] = closed::piece_times().map(|ns| ns / 1000.0);
    findings.notes.push(format!(
        "Inferred: the host takes 30 µs for each piece of a request after the first. The \
         statements of section 4.2 about reads of 64 and 128 KiB hold from {low:.1} to {high:.1} \
         µs, as computed and with two reads in progress. Section 4.2 also calls the speed at 2 \
         MiB very low. Here it is lower than at 16 to 128 KiB, but higher than at 4 KiB. Whether \
         it is so in Fig. 5 cannot be read from the text."
    ));
}
