//! What the paper prints, what a model computes, and what we find.

use hostftl_sim::theory;

use super::bench::Measured;
use super::cases::REFERENCE;
use super::loads::{HEADLINE, Workload};
use super::{BySlot, FREE, Pair};
use crate::{Band, Check, Findings, Known};

/// Where the figures of the specification's own model come from.
const MODEL: &str = "independent model of the description";

/// Adds the claims of the model, and the lead; `blind` is the first case without rule 2.
pub fn add(findings: &mut Findings, reference: &[Pair], blind: &Measured) {
    for (case, pair) in REFERENCE.iter().zip(reference) {
        let claim = format!("gain, {}", case.name);
        let check = Check::near_computed(claim, Known::new(case.gain, MODEL), pair.gain(), 25.0);
        findings.checks.push(check.because(
            "the model collects in batches below 3 free blocks, ours in step with writes",
        ));
    }
    let grain = Check::new(
        "gain with page-grain slots: nothing is gained",
        reference[7].gain(),
        Band::AtMost(1.05),
    );
    findings.checks.push(grain.computed(Known::new(0.89, MODEL)));
    let programs = blind.programs as f64 / blind.requests as f64;
    let claim = "programs for each request without rule 2: a catastrophe";
    let check = Check::new(claim, programs, Band::AtLeast(8.0));
    findings.checks.push(check.computed(Known::new(15.0, MODEL)));
    // Of 160 blocks for 128 of data up to four are set aside; each write programs a page.
    let none = &reference[0].none;
    let waf = none.programs as f64 / none.requests as f64;
    let known = Known::new(theory::greedy(158.0 / 128.0, 256), "closed form, greedy, α 1.234");
    let claim = "pages programmed for each written, no layer, 20 % free, 4 KiB";
    findings.checks.push(Check::near_computed(claim, known, waf, 5.0));
    let falls = [0, 5, 6].map(|row: usize| reference[row].gain());
    let least = (falls[0] - falls[1]).min(falls[1] - falls[2]);
    let claim = "the gain falls as free space grows: its least step";
    findings.checks.push(Check::new(claim, least, Band::AtLeast(0.0)));
    findings.lead = format!(
        "At 20 % free capacity 4 KiB writes are {:.2} times as fast (computed 1.88), \
         because {:.0} % fewer pages are copied; at 80 % nothing is gained.",
        reference[0].gain(),
        -reference[0].change(|it| it.gc_copies as f64).unwrap_or(0.0)
    );
}

/// Adds the claims of the paper's workloads, and of writes by size and alignment.
pub fn paper(checks: &mut Vec<Check>, loads: &[Workload], paper: &[Pair], by_slot: &[BySlot]) {
    let headline = loads.iter().zip(paper.chunks(FREE.len()));
    let headline = headline.filter(|(load, _)| load.name.starts_with(HEADLINE));
    let most = headline.flat_map(|(_, pairs)| pairs).map(Pair::write_gain).fold(0.0, f64::max);
    let claim = "write performance, src1_0, the most of the four free capacities";
    let known = Known::new(2.2, "Fig. 5 and section 4");
    let check = Check::near_published(claim, known, most, 25.0);
    checks.push(check.because(
        "the trace is not at hand; its stand-in writes 16 KiB and is misaligned by 31.5 KiB, as \
         servers of that time were (inference); aligned whole pages can gain nothing",
    ));
    let gains =
        |offset: usize| by_slot.iter().skip(offset).step_by(2).map(|it| it.lba.write_gain());
    let claim = "the most gain of writes of 8 to 64 KiB off by 31.5 KiB, slots of 512 B";
    let check = Check::near_computed(claim, Known::new(1.77, ALIGNMENT), most_of(gains(1)), 15.0);
    checks.push(check);
    let claim = "the least gain of writes of 8 to 64 KiB off by 31.5 KiB, slots of 512 B";
    let check = Check::near_computed(claim, Known::new(1.19, ALIGNMENT), least_of(gains(1)), 15.0);
    checks.push(check);
    let claim = "writes of 16 KiB and more, aligned, 512 B slots: nothing is gained";
    let ours = most_of(gains(0).skip(1));
    checks.push(Check::new(claim, ours, Band::AtMost(1.05)).computed(Known::new(0.97, MODEL)));
    let of_best = by_slot
        .iter()
        .map(|it| it.by_chosen().write_gain() / it.lba.write_gain().max(it.block.write_gain()));
    let claim = "writes with the slot that the first of them choose, over the better of 512 B and \
                 4 KiB: the least";
    checks.push(Check::new(claim, least_of(of_best), Band::AtLeast(0.95)));
    let energy = paper.iter().filter_map(|pair| pair.change(|it| it.energy));
    let claim = "energy, the least change in per cent, all workloads";
    let check = Check::new(claim, energy.fold(0.0, f64::min), Band::AtMost(-30.0));
    checks.push(
        check
            .published(Known::new(-60.0, ABSTRACT))
            .because("which workload that is of is not said"),
    );
    let claim = "endurance: blocks erased without over with the scrambler, the most";
    let many = paper.iter().filter(|pair| pair.scrambled.erases >= ENOUGH);
    let longer = many.filter_map(|pair| pair.change(|it| it.erases as f64));
    let longer = longer.map(|change| 100.0 / (100.0 + change)).fold(0.0, f64::max);
    let check = Check::new(claim, longer, Band::AtLeast(1.2));
    checks.push(
        check
            .published(Known::new(1.55, ABSTRACT))
            .because("which workload that is of is not said"),
    );
}

/// Erases below which a quotient says nothing.
const ENOUGH: u64 = 20;
/// Where the figures by alignment come from.
const ALIGNMENT: &str = "independent model, one size of 8 to 64 KiB";
/// The conference abstract, which is no seed.
const ABSTRACT: &str = "abstract of the conference paper, no seed";

fn most_of(gains: impl Iterator<Item = f64>) -> f64 {
    gains.fold(0.0, f64::max)
}

fn least_of(gains: impl Iterator<Item = f64>) -> f64 {
    gains.fold(f64::INFINITY, f64::min)
}
