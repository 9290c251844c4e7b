//! What an experiment found.

use hostftl_report::Figure;
use serde::Serialize;

use crate::check::Check;
use crate::made::Made;
use crate::sheet::Sheet;

/// What an experiment found, in the order in which it is told.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// The system and its source.
    pub title: String,
    /// The sentence that says it all.
    pub lead: String,
    /// What makes it again; [`crate::Paper::make`] sets it.
    pub made: Option<Made>,
    /// Its configuration: what was scaled, which parameters were fitted, what was assumed.
    pub setting: Vec<String>,
    /// Claims, and whether they hold here.
    pub checks: Vec<Check>,
    /// Figures: published, computed, ours.
    pub sheets: Vec<Sheet>,
    /// What differs from the paper and why, and what it does not say.
    pub notes: Vec<String>,
    /// Broken laws of conservation: none, or the figures can't be trusted.
    pub violations: Vec<String>,
    /// Charts for the page.
    #[serde(skip)]
    pub figures: Vec<Figure>,
}

impl Findings {
    /// Findings with nothing in them yet.
    pub fn new(title: impl Into<String>) -> Self {
        Findings {
            title: title.into(),
            lead: String::new(),
            made: None,
            setting: Vec::new(),
            checks: Vec::new(),
            sheets: Vec::new(),
            notes: Vec::new(),
            violations: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// How many claims hold, and how many there are.
    pub fn held(&self) -> (usize, usize) {
        (self.checks.iter().filter(|check| check.holds()).count(), self.checks.len())
    }

    /// The claims that do not hold, nobody knows why.
    pub fn unexplained(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.holds() && check.unexplained)
    }

    /// The claims that held before and do not now, and those that are listed as misses and hold.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.fails())
    }
}
