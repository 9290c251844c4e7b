//! Claims: a published or computed figure, the figure of the experiment, and the permitted range.
//!
//! Three kinds of figures are kept separate. *Published* figures are printed in the paper at a
//! stated place. *Computed* figures follow from a closed form, or from a model that shares no code
//! with HostFTL. *Ours* are the results of the experiment.

use serde::Serialize;

/// Permitted range of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Band {
    /// From the first to the second, both inclusive.
    Within(f64, f64),
    /// Lower bound.
    AtLeast(f64),
    /// Upper bound.
    AtMost(f64),
}

impl Band {
    /// Returns the range of `percent` per cent on both sides of `middle`.
    pub fn around(middle: f64, percent: f64) -> Self {
        let width = middle.abs() * percent / 100.0;
        Band::Within(middle - width, middle + width)
    }

    /// Returns whether `value` is in the range; false for NaN.
    pub fn holds(&self, value: f64) -> bool {
        match *self {
            Band::Within(low, high) => (low..=high).contains(&value),
            Band::AtLeast(low) => value >= low,
            Band::AtMost(high) => value <= high,
        }
    }
}

/// A published or computed figure with its source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Known {
    /// The figure.
    pub value: f64,
    /// Page, table or section of the paper; or the closed form or model.
    pub source: String,
}

impl Known {
    /// Creates a figure from `source`.
    pub fn new(value: f64, source: impl Into<String>) -> Self {
        Known { value, source: source.into() }
    }
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The claim holds.
    Holds,
    /// The claim is a known miss.
    Misses,
    /// The claim does not hold on a trace of the user, for which no result is expected.
    Told,
    /// The claim no longer holds, which indicates a regression.
    Fails,
    /// The claim holds although it is listed as a miss.
    HoldsNow,
}

/// A claim with the result of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Short name in snake case, unique among the claims of a paper.
    pub name: String,
    /// Text of the claim.
    pub claim: String,
    /// Figure printed in the paper.
    pub published: Option<Known>,
    /// Figure from theory or an independent model.
    pub computed: Option<Known>,
    /// Figure of the experiment.
    pub ours: f64,
    /// Difference in per cent from the published figure, or from the computed one if none is
    /// published.
    pub difference_percent: Option<f64>,
    /// Permitted range.
    pub band: Band,
    /// Result.
    pub verdict: Verdict,
    /// Explanation of the difference, as far as known.
    pub why: Option<String>,
    /// Whether the figure is from a trace of the user, for which no result is expected.
    #[serde(skip)]
    given: bool,
}

impl Check {
    /// Creates a check that `ours` is in `band`.
    pub fn new(name: impl Into<String>, claim: impl Into<String>, ours: f64, band: Band) -> Self {
        let verdict = if band.holds(ours) { Verdict::Holds } else { Verdict::Fails };
        Check {
            name: name.into(),
            claim: claim.into(),
            published: None,
            computed: None,
            ours,
            difference_percent: None,
            band,
            verdict,
            why: None,
            given: false,
        }
    }

    /// Creates a check that `ours` is within `percent` per cent of the published figure.
    pub fn near_published(
        name: impl Into<String>,
        claim: impl Into<String>,
        published: Known,
        ours: f64,
        percent: f64,
    ) -> Self {
        Check::new(name, claim, ours, Band::around(published.value, percent)).published(published)
    }

    /// Creates a check that `ours` is within `percent` per cent of the computed figure.
    pub fn near_computed(
        name: impl Into<String>,
        claim: impl Into<String>,
        computed: Known,
        ours: f64,
        percent: f64,
    ) -> Self {
        Check::new(name, claim, ours, Band::around(computed.value, percent)).computed(computed)
    }

    /// Adds the published figure.
    #[must_use]
    pub fn published(mut self, known: Known) -> Self {
        self.published = Some(known);
        self.differ()
    }

    /// Adds the computed figure.
    #[must_use]
    pub fn computed(mut self, known: Known) -> Self {
        self.computed = Some(known);
        self.differ()
    }

    /// Adds an explanation of the difference.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// Marks the figure as one from a trace of the user, where a miss is reported but is not a
    /// failure.
    #[must_use]
    pub fn on_given_trace(mut self) -> Self {
        self.given = true;
        if self.verdict == Verdict::Fails {
            self.verdict = Verdict::Told;
        }
        self
    }

    /// Marks the claim as a known miss. If it holds nevertheless, the list is wrong.
    #[must_use]
    pub(crate) fn listed(mut self) -> Self {
        self.verdict = match self.verdict {
            Verdict::Fails => Verdict::Misses,
            Verdict::Holds if !self.given => Verdict::HoldsNow,
            other => other,
        };
        self
    }

    /// Returns whether the claim holds.
    pub fn holds(&self) -> bool {
        matches!(self.verdict, Verdict::Holds | Verdict::HoldsNow)
    }

    /// Returns whether the claim regressed or the list of misses is wrong. The command then exits
    /// with an error.
    pub fn fails(&self) -> bool {
        matches!(self.verdict, Verdict::Fails | Verdict::HoldsNow)
    }

    /// Returns the error message for a claim that [fails](Check::fails).
    pub fn complaint(&self) -> String {
        match self.verdict {
            Verdict::HoldsNow => {
                format!("now holds; remove it from the list of known misses: {}", self.claim)
            }
            _ => format!("held before but does not hold now: {}", self.claim),
        }
    }

    fn differ(mut self) -> Self {
        let known = self.published.as_ref().or(self.computed.as_ref());
        let known = known.filter(|known| known.value != 0.0);
        self.difference_percent = known.map(|known| (self.ours / known.value - 1.0) * 100.0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_outside_its_band_fails_unless_it_is_listed_or_of_a_given_trace() {
        let known = || Known::new(2.0, "Table 1");
        let near = || Check::near_published("gain", "gain", known(), 2.19, 10.0);
        let far = || Check::near_computed("gain", "gain", known(), 2.21, 10.0).because("no cache");
        assert!(near().holds() && !near().fails());
        assert!((near().difference_percent.unwrap() - 9.5).abs() < 1e-9);
        assert_eq!(far().verdict, Verdict::Fails);
        assert!(far().complaint().starts_with("held before"));
        assert_eq!(far().listed().verdict, Verdict::Misses);
        assert_eq!(far().on_given_trace().verdict, Verdict::Told);
        assert_eq!(far().on_given_trace().listed().verdict, Verdict::Told);
        assert!(near().on_given_trace().holds());
        assert!(!Band::AtLeast(1.0).holds(f64::NAN));
        assert!(Band::AtMost(1.0).holds(1.0));
    }

    #[test]
    fn a_listed_miss_that_holds_fails_except_on_a_given_trace() {
        let near = || Check::new("gain", "gain", 1.0, Band::AtLeast(1.0));
        let now = near().listed();
        assert_eq!(now.verdict, Verdict::HoldsNow);
        assert!(now.holds() && now.fails());
        assert!(now.complaint().starts_with("now holds"), "{}", now.complaint());
        assert_eq!(near().on_given_trace().listed().verdict, Verdict::Holds);
    }

    #[test]
    fn differences_refer_to_published_values() {
        let check =
            Check::new("gain", "gain", 3.0, Band::AtLeast(1.0)).computed(Known::new(4.0, "model"));
        assert_eq!(check.difference_percent, Some(-25.0));
        let check = check.published(Known::new(2.0, "Fig. 4"));
        assert_eq!(check.difference_percent, Some(50.0));
    }
}
