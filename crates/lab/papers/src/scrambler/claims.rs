//! Claims: the paper and an independent model compared with the experiment.

use hostftl_sim::theory;

use super::bench::Measured;
use super::cases::REFERENCE;
use super::loads::{HEADLINE, Workload};
use super::{BySlot, FREE, Pair};
use crate::sheet::snake;
use crate::{Band, Check, Findings, Known};

/// Source name of the model in the specification.
const MODEL: &str = "independent model of the description";

/// Adds the claims on the model, and the summary. `blind` is the first case without rule 2.
pub(super) fn add(findings: &mut Findings, reference: &[Pair], blind: &Measured) {
    for (case, pair) in REFERENCE.iter().zip(reference) {
        let claim = format!("gain, {}", case.name);
        let (name, known) = (format!("gain_{}", snake(case.name)), Known::new(case.gain, MODEL));
        let check = Check::near_computed(name, claim, known, pair.gain(), 25.0);
        findings.checks.push(check.because(
            "the model collects in batches below 3 free blocks, ours in steps; ours also has a map \
             log",
        ));
    }
    let grain = Check::new(
        "page_grain",
        "gain with page-grain slots: nothing is gained",
        reference[7].gain(),
        Band::AtMost(1.05),
    );
    findings.checks.push(grain.computed(Known::new(0.89, MODEL)));
    let programs = blind.programs as f64 / blind.requests as f64;
    let claim = "programs for each request without rule 2: a catastrophe";
    let check = Check::new("without_rule_2", claim, programs, Band::AtLeast(8.0));
    findings.checks.push(check.computed(Known::new(15.0, MODEL)));
    // There are 160 blocks for 128 blocks of data, and up to four are reserved. Each write programs
    // a page.
    let none = &reference[0].none;
    let waf = none.programs as f64 / none.requests as f64;
    let known = Known::new(theory::greedy(158.0 / 128.0, 256), "closed form, greedy, α 1.234");
    let claim = "pages programmed for each written, no layer, 20 % free, 4 KiB";
    findings.checks.push(Check::near_computed("write_amplification", claim, known, waf, 5.0));
    let falls = [0, 5, 6].map(|row: usize| reference[row].gain());
    let least = (falls[0] - falls[1]).min(falls[1] - falls[2]);
    let claim = "the gain falls as free space grows: its least step";
    findings.checks.push(Check::new("gain_falls", claim, least, Band::AtLeast(0.0)));
    findings.lead = format!(
        "At 20 % free capacity, 4 KiB writes are {:.2} times as fast (computed 1.88), because \
         {:.0} % fewer pages are copied; at 80 % there is no gain.",
        reference[0].gain(),
        -reference[0].change(|it| it.gc_copies as f64).unwrap_or(0.0)
    );
}

/// Adds the claims on the paper's workloads, and on writes by size and alignment.
pub(super) fn paper(
    checks: &mut Vec<Check>,
    loads: &[Workload],
    paper: &[Pair],
    by_slot: &[BySlot],
) {
    checks.extend(headline(loads, paper));
    by_size(checks, by_slot);
    extremes(checks, loads, paper);
}

/// Returns the claim on the paper's main figure, if the trace itself is given. Its stand-ins gain
/// by another effect, so there is no claim on them.
fn headline(loads: &[Workload], paper: &[Pair]) -> Option<Check> {
    let mut all = loads.iter().zip(paper.chunks(FREE.len()));
    let (_, pairs) = all.find(|(load, _)| load.name == HEADLINE && load.given)?;
    let most = pairs.iter().map(Pair::write_gain).fold(0.0, f64::max);
    let claim = "write performance, src1_0, the most of the four free capacities";
    let known = Known::new(2.2, "Fig. 5 and section 4");
    let check = Check::near_published("src1_0_write_gain", claim, known, most, 25.0);
    Some(check.on_given_trace().because(GIVEN_TRACE))
}

/// Explanation of a difference on the trace itself.
const GIVEN_TRACE: &str = "the trace itself; its addresses are packed here, and at most its \
                           first 400,000 requests are timed";

/// Adds the claims on writes by size and alignment.
fn by_size(checks: &mut Vec<Check>, by_slot: &[BySlot]) {
    let gains =
        |offset: usize| by_slot.iter().skip(offset).step_by(2).map(|it| it.lba.write_gain());
    let claim = "the most gain of writes of 8 to 64 KiB off by 31.5 KiB, slots of 512 B";
    let (name, known) = ("misaligned_most", Known::new(1.77, ALIGNMENT));
    checks.push(Check::near_computed(name, claim, known, greatest(gains(1)), 15.0));
    let claim = "the least gain of writes of 8 to 64 KiB off by 31.5 KiB, slots of 512 B";
    let (name, known) = ("misaligned_least", Known::new(1.19, ALIGNMENT));
    checks.push(Check::near_computed(name, claim, known, smallest(gains(1)), 15.0));
    let claim = "writes of 16 KiB and more, aligned, 512 B slots: nothing is gained";
    let ours = greatest(gains(0).skip(1));
    let check = Check::new("aligned", claim, ours, Band::AtMost(1.05));
    checks.push(check.computed(Known::new(0.97, MODEL)));
    let of_best = by_slot
        .iter()
        .map(|it| it.by_chosen().write_gain() / it.lba.write_gain().max(it.block.write_gain()));
    let claim = "writes with the slot that the first of them choose, over the better of 512 B and \
                 4 KiB: the least";
    checks.push(Check::new("slot_auto", claim, smallest(of_best), Band::AtLeast(0.95)));
}

/// Adds the claims of the abstract, which does not name their workloads.
fn extremes(checks: &mut Vec<Check>, loads: &[Workload], paper: &[Pair]) {
    let given = loads.iter().any(|load| load.given);
    let noted = |check: Check| if given { check.on_given_trace() } else { check };
    let energy = paper.iter().filter_map(|pair| pair.change(|it| it.energy));
    let claim = "energy, the least change in per cent, all workloads";
    let least = energy.fold(0.0, f64::min);
    let check = Check::new("energy", claim, least, Band::AtMost(-30.0));
    checks.push(
        noted(check)
            .published(Known::new(-60.0, ABSTRACT))
            .because("the paper does not name the workload"),
    );
    let claim = "endurance: blocks erased without over with the scrambler, the most";
    let many = paper.iter().filter(|pair| pair.scrambled.erases >= ENOUGH);
    let longer = many.filter_map(|pair| pair.change(|it| it.erases as f64));
    let longer = longer.map(|change| 100.0 / (100.0 + change)).fold(0.0, f64::max);
    let check = Check::new("endurance", claim, longer, Band::AtLeast(1.2));
    checks.push(
        noted(check)
            .published(Known::new(1.55, ABSTRACT))
            .because("the paper does not name the workload"),
    );
}

/// Minimum number of erases for a meaningful quotient.
const ENOUGH: u64 = 20;
/// Source of the figures by alignment.
const ALIGNMENT: &str = "independent model, one size of 8 to 64 KiB";
/// Source name of the conference abstract.
const ABSTRACT: &str = "abstract of the conference paper, no seed";

fn greatest(gains: impl Iterator<Item = f64>) -> f64 {
    gains.fold(0.0, f64::max)
}

fn smallest(gains: impl Iterator<Item = f64>) -> f64 {
    gains.fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;
    use crate::scrambler::loads::workloads;
    use crate::{Options, Size};

    #[test]
    fn failed_claims_on_a_given_trace_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let text = "t_us,op,byte_off,byte_len\n0,W,0,16384\n9,W,16384,16384\n";
        std::fs::write(folder.path().join("src1_0.csv"), text).unwrap();
        let (size, sweep, threads, seed) = (Size::Quick, false, 1, 1);
        let mut options = Options { size, sweep, traces: None, threads, seed, commit: "" };
        let verdicts = |options: &Options| {
            let loads = workloads(options).unwrap();
            // Without measurements no claim holds.
            let pairs = vec![Pair::default(); loads.len() * FREE.len()];
            let headline = headline(&loads, &pairs);
            let mut rest = Vec::new();
            extremes(&mut rest, &loads, &pairs);
            (headline.map(|it| it.verdict), rest[0].verdict, rest[1].verdict)
        };
        let broken = Verdict::Fails;
        assert_eq!(verdicts(&options), (None, broken, broken));
        options.traces = Some(folder.path().to_owned());
        let noted = Verdict::Told;
        assert_eq!(verdicts(&options), (Some(noted), noted, noted));
        let loads = workloads(&options).unwrap();
        let real = loads.iter().find(|load| load.name == HEADLINE).unwrap();
        assert!(real.about.starts_with("2 requests, "), "{}", real.about);
        assert!(real.about.contains("src1_0.csv (54 bytes)"), "{}", real.about);
    }
}
