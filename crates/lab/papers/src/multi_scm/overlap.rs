//! The effect of writing dirty pages to S in parallel with the next request. It compares the same
//! runs, the summed work of both memories in sequence, and the serial model.

use super::loads::{Load, PUBLISHED};
use super::stack::{Figures, Outcome, Setup};
use super::{CASES as ALL, SERIAL, TABLE, each, gain, play_all, serial, serial_gain};
use crate::stage::stages;
use crate::{Band, Cell, Check, Error, Findings, Known, Options, Sheet, Size, Watch};

/// Cases with published gains, in the order of [`PUBLISHED`].
const CASES: [usize; 2] = [4, 3];
/// Tolerance in per cent of the published gain, for a workload as long as the trace.
const NEAR: f64 = 15.0;
/// Tolerance in percentage points between the experiment and the model, both in sequence.
const POINT: f64 = 1.0;

/// Explanation of the remaining difference from the model.
const OVERLAP: &str = "the gain of ours beyond the model is therefore overlap: a dirty page goes \
                       to S in parallel with the next request, which a levelling copy in M delays \
                       and one in S does not";
/// Explanation of the figures for the long stand-in.
const LENGTH: &str = "one operation at a time, which the paper does not state; the stand-in has \
                      the number of requests of the trace, 2.5 times those of the table above, \
                      but not its skew";
/// Explanation of the larger gain with writes of whole pages.
const WHOLE_PAGES: &str = "mariadb-oltp writes whole pages. A written page that is not in M is an \
                           overwrite of a page of M in ours, because a memory cannot distinguish \
                           it, and a fill in the model. Ours therefore levels more there.";

/// Returns whether the stand-in of prxy_0 as long as the trace is added.
fn is_whole_added(first: &Load, options: &Options) -> bool {
    options.size != Size::Quick && !first.is_real()
}

/// Returns the number of requests that [`add`] plays.
pub(super) fn requests(first: &Load, options: &Options) -> u64 {
    let runs = if is_whole_added(first, options) { 2 * ALL } else { 0 };
    runs as u64 * Load::whole_prxy_0().count
}

/// Adds the table and its claims.
pub(super) fn add(
    findings: &mut Findings,
    rows: &[(&Load, &[Outcome])],
    computed: &[&[Figures]],
    options: &Options,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let title = "Gains over case 1 by scheduling of the memories, in %";
    let mut sheet = Sheet::new("scheduling", title)
        .words(["workload"])
        .input(["case"])
        .ours([
            "ours: write-back in parallel with the next request",
            "ours: one operation at a time",
        ])
        .computed(["computed: one operation at a time"])
        .published(["published"]);
    let mut off = 0.0_f64;
    for (at, ((load, outcomes), computed)) in rows.iter().zip(computed).enumerate() {
        let published = PUBLISHED.get(at).map_or([None; 2], |of| of.gains);
        for (case, published) in CASES.into_iter().zip(published) {
            let gains = Gains::of(outcomes, computed, case);
            if at < PUBLISHED.len() && !load.is_real() {
                off = off.max((gains.in_turn - gains.computed).abs());
            }
            sheet.row(gains.row(load.name.clone(), case, published));
        }
    }
    let claim = "stand-ins, one thing at a time: points that ours is off the model, the most";
    let check = Check::new("serial_difference", claim, off, Band::AtMost(POINT));
    findings.checks.push(check.because(OVERLAP));
    if is_whole_added(rows[0].0, options) {
        whole(findings, &mut sheet, options, watch)?;
    }
    findings.sheets.push(sheet);
    if rows.len() > PUBLISHED.len() {
        findings.notes.push(WHOLE_PAGES.into());
    }
    Ok(())
}

/// Adds the stand-in of prxy_0 with the size and the length of the trace.
fn whole(
    findings: &mut Findings,
    sheet: &mut Sheet,
    options: &Options,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let load = Load::whole_prxy_0();
    let jobs: Vec<_> = (1..=ALL).map(|case| (&load, Setup::case(case))).collect();
    let parts = stages(watch, [1, 1]);
    let outcomes = play_all(&jobs, options, &parts[0])?;
    let computed = each(&jobs, options, &parts[1], (", the model", serial::play))?;
    for (case, known) in CASES.into_iter().zip(PUBLISHED[0].gains) {
        let gains = Gains::of(&outcomes, &computed, case);
        sheet.row(gains.row(format!("{}, as long as the trace", load.name), case, known));
        let name = format!("{}_long_gain_case_{case}", load.name);
        let claim = format!("{}, as large and long as the trace: gain of case {case}", load.name);
        let known = known.expect("both are published");
        let check =
            Check::near_published(name, claim, Known::new(known, TABLE), gains.in_turn, NEAR);
        let check = check.computed(Known::new(gains.computed, SERIAL));
        findings.checks.push(check.because(LENGTH));
    }
    findings.violations.extend(outcomes.into_iter().filter_map(|it| it.violation));
    Ok(())
}

/// Gains of a case over case 1, in per cent.
#[derive(Clone, Copy, Debug)]
struct Gains {
    ours: f64,
    in_turn: f64,
    computed: f64,
}

impl Gains {
    fn of(outcomes: &[Outcome], computed: &[Figures], case: usize) -> Self {
        let in_turn = outcomes[case - 1].in_turn / outcomes[0].in_turn;
        Gains {
            ours: gain(outcomes, case),
            in_turn: (in_turn - 1.0) * 100.0,
            computed: serial_gain(computed, case),
        }
    }

    fn row(&self, name: String, case: usize, published: Option<f64>) -> [Cell; 6] {
        let percent = |gain| Cell::Number(gain, 1);
        [
            name.into(),
            Cell::Number(case as f64, 0),
            percent(self.ours),
            percent(self.in_turn),
            percent(self.computed),
            published.map_or(Cell::Nothing, percent),
        ]
    }
}
