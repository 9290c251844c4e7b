//! A claim: what was published or follows from theory, what we find, and whether that will do.
//!
//! Three kinds of figures are kept apart. *Published* is printed in the paper, at a place that can
//! be looked up. *Computed* follows from a closed form or from a model that shares no code with
//! ours. *Ours* is what the experiment found.

use serde::Serialize;

/// Where a figure has to lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Band {
    /// From the first to the second, both included.
    Within(f64, f64),
    /// Not below.
    AtLeast(f64),
    /// Not above.
    AtMost(f64),
}

impl Band {
    /// Around `middle`, to `percent` per cent on both sides.
    pub fn around(middle: f64, percent: f64) -> Self {
        let width = middle.abs() * percent / 100.0;
        Band::Within(middle - width, middle + width)
    }

    /// Whether `value` lies there; what is not a number lies nowhere.
    pub fn holds(&self, value: f64) -> bool {
        match *self {
            Band::Within(low, high) => (low..=high).contains(&value),
            Band::AtLeast(low) => value >= low,
            Band::AtMost(high) => value <= high,
        }
    }
}

/// A figure that is not ours, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Known {
    /// The figure.
    pub value: f64,
    /// Page, table or section of the paper; or the closed form or model.
    pub source: String,
}

impl Known {
    /// `value`, as `source` has it.
    pub fn new(value: f64, source: impl Into<String>) -> Self {
        Known { value, source: source.into() }
    }
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not, and that is known.
    Misses,
    /// It does not, on a trace that was given: nothing is known of that one.
    Told,
    /// It does not any more: something broke.
    Fails,
    /// It does, though it is listed as one that does not.
    HoldsNow,
}

/// One claim, and what we find.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The claim in words.
    pub claim: String,
    /// What is printed in the paper.
    pub published: Option<Known>,
    /// What theory or an independent model says.
    pub computed: Option<Known>,
    /// What we find.
    pub ours: f64,
    /// By how many per cent ours is off: from what is published, or else from what is computed.
    pub difference_percent: Option<f64>,
    /// Where ours has to lie.
    pub band: Band,
    /// Whether it lies there.
    pub verdict: Verdict,
    /// Why ours is another figure, as far as that is known.
    pub why: Option<String>,
    /// Whether nobody knows why it does not hold.
    pub unexplained: bool,
    /// Whether the figure is of a trace that was given, so that nothing is known to hold.
    #[serde(skip)]
    given: bool,
}

impl Check {
    /// A claim whose figure should lie in `band`.
    pub fn new(claim: impl Into<String>, ours: f64, band: Band) -> Self {
        let verdict = if band.holds(ours) { Verdict::Holds } else { Verdict::Fails };
        Check {
            claim: claim.into(),
            published: None,
            computed: None,
            ours,
            difference_percent: None,
            band,
            verdict,
            why: None,
            unexplained: false,
            given: false,
        }
    }

    /// A figure that should be within `percent` per cent of what was published.
    pub fn near_published(
        claim: impl Into<String>,
        published: Known,
        ours: f64,
        percent: f64,
    ) -> Self {
        Check::new(claim, ours, Band::around(published.value, percent)).published(published)
    }

    /// A figure that should be within `percent` per cent of what was computed.
    pub fn near_computed(
        claim: impl Into<String>,
        computed: Known,
        ours: f64,
        percent: f64,
    ) -> Self {
        Check::new(claim, ours, Band::around(computed.value, percent)).computed(computed)
    }

    /// What the paper prints.
    #[must_use]
    pub fn published(mut self, known: Known) -> Self {
        self.published = Some(known);
        self.differ()
    }

    /// What theory or an independent model says.
    #[must_use]
    pub fn computed(mut self, known: Known) -> Self {
        self.computed = Some(known);
        self.differ()
    }

    /// Why ours is another figure.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// Why the claim does not hold is not known: what is said of it is what it can't be.
    #[must_use]
    pub fn unexplained(mut self) -> Self {
        self.unexplained = true;
        self
    }

    /// The figure is of a trace that was given: a claim that does not hold is told, and nothing
    /// broke.
    #[must_use]
    pub fn on_given_trace(mut self) -> Self {
        self.given = true;
        if self.verdict == Verdict::Fails {
            self.verdict = Verdict::Told;
        }
        self
    }

    /// The claim is listed as one that does not hold: if it does, the list is wrong.
    #[must_use]
    pub(crate) fn listed(mut self) -> Self {
        self.verdict = match self.verdict {
            Verdict::Fails => Verdict::Misses,
            Verdict::Holds if !self.given => Verdict::HoldsNow,
            other => other,
        };
        self
    }

    /// Whether the claim holds.
    pub fn holds(&self) -> bool {
        matches!(self.verdict, Verdict::Holds | Verdict::HoldsNow)
    }

    /// Whether something broke, or the list of misses is wrong: the command ends with an error.
    pub fn fails(&self) -> bool {
        matches!(self.verdict, Verdict::Fails | Verdict::HoldsNow)
    }

    /// What the command says of a claim that [fails](Check::fails).
    pub fn complaint(&self) -> String {
        match self.verdict {
            Verdict::HoldsNow => {
                format!("holds now, take it off the list of known misses: {}", self.claim)
            }
            _ => format!("held before and does not hold: {}", self.claim),
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
        let near = || Check::near_published("gain", known(), 2.19, 10.0);
        let far = || Check::near_computed("gain", known(), 2.21, 10.0).because("no cache");
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
    fn a_listed_claim_that_holds_fails_but_not_on_a_given_trace() {
        let near = || Check::new("gain", 1.0, Band::AtLeast(1.0));
        let now = near().listed();
        assert_eq!(now.verdict, Verdict::HoldsNow);
        assert!(now.holds() && now.fails());
        assert!(now.complaint().starts_with("holds now"), "{}", now.complaint());
        assert_eq!(near().on_given_trace().listed().verdict, Verdict::Holds);
    }

    #[test]
    fn the_difference_is_to_what_is_published_where_something_is() {
        let check = Check::new("gain", 3.0, Band::AtLeast(1.0)).computed(Known::new(4.0, "model"));
        assert_eq!(check.difference_percent, Some(-25.0));
        let check = check.published(Known::new(2.0, "Fig. 4"));
        assert_eq!(check.difference_percent, Some(50.0));
    }
}
