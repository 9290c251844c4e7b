//! The known misses: claims that do not hold, with their sizes and traces. The table in
//! docs/PAPERS.md lists the same claims, and a test compares both.

use crate::check::{Band, Check};
use crate::findings::Findings;
use crate::made::{Options, Size};

/// Seed of the runs from which the list was made.
const SEED: u64 = 1;

/// A claim that is known not to hold.
#[derive(Clone, Copy, Debug)]
pub struct Miss {
    /// Name of the paper on the command line.
    pub paper: &'static str,
    /// Text of the claim.
    pub claim: &'static str,
    /// Sizes at which it does not hold. It holds at the others.
    pub sizes: &'static [Size],
    /// Whether it depends on the shipped trace. Without the trace the claim is absent.
    pub shipped: bool,
}

const ALL: &[Size] = &[Size::Quick, Size::Usual, Size::Full];
const SCALED: &[Size] = &[Size::Quick, Size::Usual];
const LARGE: &[Size] = &[Size::Usual, Size::Full];
const FULL: &[Size] = &[Size::Full];

const fn olive(claim: &'static str) -> Miss {
    Miss { paper: "olive", claim, sizes: ALL, shipped: false }
}

const fn hatl(claim: &'static str, sizes: &'static [Size]) -> Miss {
    Miss { paper: "hatl", claim, sizes, shipped: false }
}

const fn multi_scm(claim: &'static str, sizes: &'static [Size]) -> Miss {
    Miss { paper: "multi-scm", claim, sizes, shipped: false }
}

/// All known misses, in the order of docs/PAPERS.md.
pub const MISSES: &[Miss] = &[
    olive("gain of LightNVM, sequential write, 4 KiB"),
    Miss { shipped: true, ..hatl("sHATL is near HARD, real traces, the worst quotient", LARGE) },
    multi_scm("prxy_0: requests/s of case 3 over case 1", SCALED),
    multi_scm("prxy_0: the case to choose when life counts", FULL),
];

impl Miss {
    /// Returns the sizes and the trace of the miss, as in docs/PAPERS.md.
    pub fn when(&self) -> String {
        let sizes = if self.sizes == ALL {
            "all".into()
        } else {
            self.sizes.iter().map(Size::to_string).collect::<Vec<_>>().join(", ")
        };
        if self.shipped { format!("{sizes}; shipped trace") } else { sizes }
    }
}

/// Compares the claims of `paper` with the list: a claim that is listed for this size must miss,
/// and every other claim must hold. With a seed other than that of the list, listed claims may also
/// hold.
pub(crate) fn judge(paper: &str, options: &Options, findings: &mut Findings) {
    judge_by(MISSES, paper, options, findings);
}

fn judge_by(list: &[Miss], paper: &str, options: &Options, findings: &mut Findings) {
    let due = list.iter().filter(|it| it.paper == paper && it.sizes.contains(&options.size));
    for miss in due {
        let check = findings.checks.iter_mut().find(|check| check.claim == miss.claim);
        match check {
            Some(check) if options.seed == SEED || !check.holds() => {
                *check = check.clone().listed()
            }
            Some(_) => {}
            None if miss.shipped => {}
            None => {
                let check = Check::new("absent", miss.claim, f64::NAN, Band::AtLeast(0.0));
                findings
                    .checks
                    .push(check.because("listed as a miss, but the claim does not exist"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;

    /// Returns the verdicts of two claims with a list of one. The first misses its band and the
    /// second does not.
    fn verdicts(listed: &'static str, size: Size, seed: u64) -> Vec<Verdict> {
        let list = [Miss { paper: "a", claim: listed, sizes: SCALED, shipped: false }];
        let options = Options { size, sweep: false, traces: None, threads: 1, seed, commit: "" };
        let mut findings = Findings::new("A system");
        let checks = [("far", 0.5), ("near", 1.5)];
        let check = |(claim, ours)| Check::new(claim, claim, ours, Band::AtLeast(1.0));
        findings.checks.extend(checks.map(check));
        judge_by(&list, "a", &options, &mut findings);
        findings.checks.iter().map(|check| check.verdict).collect()
    }

    #[test]
    fn only_listed_claims_may_miss() {
        assert_eq!(verdicts("far", Size::Usual, 1), [Verdict::Misses, Verdict::Holds]);
        assert_eq!(verdicts("far", Size::Full, 1), [Verdict::Fails, Verdict::Holds]);
        assert_eq!(verdicts("near", Size::Usual, 1), [Verdict::Fails, Verdict::HoldsNow]);
        assert_eq!(verdicts("near", Size::Usual, 2), [Verdict::Fails, Verdict::Holds]);
        let none = verdicts("another", Size::Quick, 1);
        assert_eq!(none, [Verdict::Fails, Verdict::Holds, Verdict::Fails]);
    }

    #[test]
    fn each_claim_is_listed_once() {
        let claims = MISSES.iter().map(|it| (it.paper, it.claim));
        assert_eq!(claims.collect::<std::collections::BTreeSet<_>>().len(), MISSES.len());
    }

    #[test]
    fn sizes_as_people_read_them() {
        assert_eq!(MISSES[0].when(), "all");
        assert_eq!(MISSES[1].when(), "usual, full; shipped trace");
    }
}
