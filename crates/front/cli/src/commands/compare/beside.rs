//! Results in several states of a drive, side by side: one line for each layer.

use hostftl_frontend::judgement::{Judged, Judgement};
use hostftl_sim::{Hole, Outcome, Row};

use super::report::NOTHING;
use super::verdict::{of_row, state};

/// Results of a layer on a drive under a workload.
pub(super) struct Line<'a> {
    pub workload: &'a str,
    pub drive: &'a str,
    pub layer: &'a str,
    /// Rows, in the order of states.
    pub rows: Vec<&'a Row>,
    /// States without a row.
    pub holes: Vec<&'a Hole>,
}

/// Returns the distinct states of all rows and holes, in order.
pub(super) fn states(outcome: &Outcome) -> Vec<&str> {
    let mut states = Vec::new();
    for one in outcome.each() {
        let state = one.map_or_else(|hole| hole.warm.as_str(), state);
        if !states.contains(&state) {
            states.push(state);
        }
    }
    states
}

/// Returns all lines, in the order of the outcome.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line<'_>> {
    let mut lines: Vec<Line> = Vec::new();
    for one in outcome.each() {
        let (workload, drive, layer) = match one {
            Ok(row) => (&row.workload, &row.drive, &row.layer),
            Err(hole) => (&hole.workload, &hole.drive, &hole.layer),
        };
        let same =
            |line: &Line| (line.workload, line.drive, line.layer) == (workload, drive, layer);
        let at = lines.iter().position(same).unwrap_or_else(|| {
            lines.push(Line { workload, drive, layer, rows: Vec::new(), holes: Vec::new() });
            lines.len() - 1
        });
        match one {
            Ok(row) => lines[at].rows.push(row),
            Err(hole) => lines[at].holes.push(hole),
        }
    }
    lines
}

impl Line<'_> {
    /// Returns the layer's judgement in state `wanted`.
    pub(super) fn judged<'a>(&self, wanted: &str, all: &'a [Judgement]) -> Option<&'a Judged> {
        let row = self.rows.iter().find(|row| state(row) == wanted)?;
        of_row(row, all)?.judged(&row.layer)
    }

    /// Returns the write amplification in state `wanted`, and the wear relative to the base. `!`
    /// marks a row that exceeds a limit, and `?` one that is partial or whose state was not
    /// reached.
    pub(super) fn cell(&self, wanted: &str, all: &[Judgement]) -> String {
        let Some(row) = self.rows.iter().find(|row| state(row) == wanted) else {
            return NOTHING.to_owned();
        };
        let judged = self.judged(wanted, all);
        let waf = row.waf_total.map_or(NOTHING.to_owned(), |waf| format!("{waf:.2}"));
        let wear = judged.and_then(|it| it.relative.wear);
        let ratio = wear.map_or(String::new(), |ratio| format!("  ×{ratio:.2}"));
        let broken = if judged.is_some_and(|it| !it.broken.is_empty()) { "!" } else { "" };
        let mark = if row.partial || row.warm != wanted { "?" } else { "" };
        format!("{waf}{ratio}{broken}{mark}")
    }
}
