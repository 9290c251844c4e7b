//! Results of an experiment.

use hostftl_report::Figure;
use serde::Serialize;

use crate::check::Check;
use crate::made::Made;
use crate::sheet::Sheet;

/// Results of an experiment, in the order of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// The system and its source.
    pub title: String,
    /// Summary in one sentence.
    pub lead: String,
    /// How to reproduce the experiment; set by [`crate::Paper::make`].
    pub made: Option<Made>,
    /// Configuration: scaling, fitted parameters, assumptions.
    pub setting: Vec<String>,
    /// Claims with their results.
    pub checks: Vec<Check>,
    /// Tables of published, computed and measured figures.
    pub sheets: Vec<Sheet>,
    /// Differences from the paper with their reasons, and details that the paper omits.
    pub notes: Vec<String>,
    /// Violated conservation laws. If there are any, the figures are invalid.
    pub violations: Vec<String>,
    /// Charts of the page.
    #[serde(skip)]
    pub figures: Vec<Figure>,
}

impl Findings {
    /// Creates empty findings.
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

    /// Returns the number of claims that hold, and of all claims.
    pub fn held(&self) -> (usize, usize) {
        (self.checks.iter().filter(|check| check.holds()).count(), self.checks.len())
    }

    /// Returns the claims that regressed, and the listed misses that hold.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.fails())
    }
}
