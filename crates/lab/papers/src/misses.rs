//! The claims that do not hold: which, at which size, and with which trace. README's table names
//! the same, and a test compares both.

use crate::check::{Band, Check};
use crate::findings::Findings;
use crate::made::{Options, Size};

/// The seed for which the list is known.
const SEED: u64 = 1;

/// A claim that is known not to hold.
#[derive(Clone, Copy, Debug)]
pub struct Miss {
    /// The paper's name in the CLI.
    pub paper: &'static str,
    /// The claim's words.
    pub claim: &'static str,
    /// The sizes at which it does not hold; at the others it does.
    pub sizes: &'static [Size],
    /// Whether it is of the shipped trace, without which the claim is not made.
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

/// All of them, in README's order.
pub const MISSES: &[Miss] = &[
    olive("LightNVM, sequential read (MB/s), 64 KiB"),
    olive("LightNVM, sequential read (MB/s), 128 KiB"),
    olive("LightNVM, random read (K/s), 64 KiB"),
    olive("LightNVM, random read (K/s), 128 KiB"),
    olive("gain of LightNVM, sequential write, 4 KiB"),
    olive("gain of LightNVM, sequential write, 64 KiB"),
    olive("gain of LightNVM, random write, 4 KiB"),
    olive("gain of LightNVM, random write, 128 KiB"),
    hatl("busy time of sHATL, uniform over twice the hidden area", ALL),
    Miss { shipped: true, ..hatl("sHATL is near HARD, real traces, the worst quotient", LARGE) },
    hatl("busy time of sHATL, uniform over 64 MiB, 2 GiB", ALL),
    hatl("busy time of sHATL, 90 % of writes to 5 %, 256 MiB, 2 GiB", ALL),
    hatl("busy time of mHATL, the same + 5 % sequential 256 KiB, 2 GiB", LARGE),
    multi_scm("Table 3: gains, of 7, within 5 points of the published", SCALED),
    multi_scm("prxy_0: the case to choose when life counts", FULL),
    multi_scm("Table 3 and Fig. 5: workloads, of 4, with the published case for life", FULL),
];

impl Miss {
    /// When the claim does not hold, as README says it.
    pub fn when(&self) -> String {
        let sizes = if self.sizes == ALL {
            "all".into()
        } else {
            self.sizes.iter().map(Size::to_string).collect::<Vec<_>>().join(", ")
        };
        if self.shipped { format!("{sizes}; shipped trace") } else { sizes }
    }
}

/// Compares the claims of `paper` with the list: a claim that is listed for this size has to miss,
/// and each other one has to hold. With another seed than the list's a listed claim may also hold.
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
                let check = Check::new(miss.claim, f64::NAN, Band::AtLeast(0.0));
                findings.checks.push(check.because("listed as a miss, and no such claim is made"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;

    /// The verdicts of two claims, of which the first misses its band and the second does not, by
    /// a list that names one.
    fn verdicts(listed: &'static str, size: Size, seed: u64) -> Vec<Verdict> {
        let list = [Miss { paper: "a", claim: listed, sizes: SCALED, shipped: false }];
        let options = Options { size, sweep: false, traces: None, threads: 1, seed, commit: "" };
        let mut findings = Findings::new("A system");
        let checks = [("far", 0.5), ("near", 1.5)];
        let check = |(claim, ours)| Check::new(claim, ours, Band::AtLeast(1.0));
        findings.checks.extend(checks.map(check));
        judge_by(&list, "a", &options, &mut findings);
        findings.checks.iter().map(|check| check.verdict).collect()
    }

    #[test]
    fn a_claim_misses_only_where_it_is_listed() {
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
        assert_eq!(MISSES[9].when(), "usual, full; shipped trace");
    }
}
