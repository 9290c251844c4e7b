//! A figure that has to lie where a paper or a theory says.

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

/// One claim, and what we find.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The claim in words.
    pub what: String,
    /// What was published, or what theory says.
    pub published: Option<f64>,
    /// What we find.
    pub ours: f64,
    /// Where it has to lie.
    pub band: Band,
    /// Whether it lies there.
    pub holds: bool,
    /// Why it does not, as far as that is known.
    pub why: Option<String>,
}

impl Check {
    /// A claim whose figure should lie in `band`.
    pub fn new(what: impl Into<String>, published: Option<f64>, ours: f64, band: Band) -> Self {
        Check { what: what.into(), published, ours, band, holds: band.holds(ours), why: None }
    }

    /// A figure that should be within `percent` per cent of what was published.
    pub fn near(what: impl Into<String>, published: f64, ours: f64, percent: f64) -> Self {
        Check::new(what, Some(published), ours, Band::around(published, percent))
    }

    /// The reason that is told when the claim does not hold.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = (!self.holds).then(|| why.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_misses_its_band_says_why() {
        let near = Check::near("gain", 2.0, 2.19, 10.0).because("never told");
        assert!(near.holds && near.why.is_none());
        let far = Check::near("gain", 2.0, 2.21, 10.0).because("no cache is modelled");
        assert!(!far.holds);
        assert_eq!(far.why.as_deref(), Some("no cache is modelled"));
        assert!(!Band::AtLeast(1.0).holds(f64::NAN));
        assert!(Band::AtMost(1.0).holds(1.0));
    }
}
