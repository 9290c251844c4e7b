//! Results in several states of a drive, side by side: one line for each layer.

use hostftl_sim::{Hole, Outcome, Row};

use super::verdict::{A_LITTLE_LESS, CLEARLY_LESS, CLEARLY_MORE, is_base, state};
use crate::units::bytes;

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
    /// Returns the write amplification in state `wanted`, and the busy time of the drive relative
    /// to the base. `?` marks a row that is partial or whose state was not reached.
    pub(super) fn cell(&self, wanted: &str) -> String {
        let Some(row) = self.rows.iter().find(|row| state(row) == wanted) else {
            return "–".to_owned();
        };
        let waf = row.waf_total.map_or("–".to_owned(), |waf| format!("{waf:.2}"));
        let ratio = row.busy_ratio.map_or(String::new(), |ratio| format!("  ×{ratio:.2}"));
        let mark = if row.partial || row.warm != wanted { "?" } else { "" };
        format!("{waf}{ratio}{mark}")
    }

    /// Returns the states in which the layer pays and those in which it does not; `None` without a
    /// base.
    pub(super) fn verdict(&self) -> Option<String> {
        let related = self.rows.iter().filter(|row| !is_base(row));
        let related = related.filter_map(|row| row.busy_ratio.map(|ratio| (*row, ratio)));
        let related: Vec<(&Row, f64)> = related.collect();
        let named = |keep: &dyn Fn(f64) -> bool| -> Option<String> {
            let kept = related.iter().filter(|(_, ratio)| keep(*ratio));
            let texts = kept.map(|(row, ratio)| format!("{} ×{ratio:.2}", state(row)));
            let texts = texts.collect::<Vec<String>>();
            (!texts.is_empty()).then(|| texts.join(", "))
        };
        let parts = [
            ("reduces the work of the drive", named(&|ratio| ratio < CLEARLY_LESS)),
            ("is a small gain", named(&|ratio| (CLEARLY_LESS..A_LITTLE_LESS).contains(&ratio))),
            ("changes little", named(&|ratio| (A_LITTLE_LESS..=CLEARLY_MORE).contains(&ratio))),
            ("does not pay", named(&|ratio| ratio > CLEARLY_MORE)),
        ];
        let parts = parts.into_iter().filter_map(|(effect, states)| Some((effect, states?)));
        let parts: Vec<String> =
            parts.map(|(effect, states)| format!("{effect}: {states}")).collect();
        let memory = bytes(related.first()?.0.layer_bytes());
        Some(format!("{} {}; it uses {memory} of memory.", self.layer, parts.join("; it ")))
    }
}
