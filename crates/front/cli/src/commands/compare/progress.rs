//! Progress on standard error, from the third second on: a bar on a terminal, otherwise a line
//! every 30 s.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hostftl_sim::Watch;
use hostftl_trace::Notes;
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt;

/// Time before the first display.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval between progress lines if standard error is not a terminal.
const LINE: Duration = Duration::from_secs(30);
/// Interval between updates of the bar.
const REDRAW: Duration = Duration::from_millis(100);
/// Steps of the bar for each row.
const STEPS: u64 = 1000;

/// Progress of all rows.
pub(crate) struct Progress {
    watched: bool,
    /// Whether notes on workloads and devices are printed.
    warns: bool,
    begin: Instant,
    state: Mutex<State>,
}

struct State {
    drawn: Instant,
    /// Progress of each row, from 0 to [`STEPS`].
    rows: Vec<u64>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Creates the display for a number of rows; `watched` if standard error is a terminal.
    pub(crate) fn new(rows: usize, watched: bool) -> Self {
        let now = Instant::now();
        let state = Mutex::new(State { drawn: now, rows: vec![0; rows], bar: None });
        Progress { watched, warns: true, begin: now, state }
    }

    /// Suppresses the notes on workloads and devices, which an earlier run has printed.
    #[must_use]
    pub(crate) fn again(self) -> Self {
        Progress { warns: false, ..self }
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.state().bar.iter().for_each(ProgressBar::finish_and_clear);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the progress of row `row`, and updates the display when it is due. `phase` precedes
    /// the number of rows.
    fn show(&self, row: usize, phase: &str, steps: u64) {
        let mut state = self.state();
        state.rows[row] = steps;
        let now = Instant::now();
        let so_far = now.duration_since(self.begin);
        let pause = if self.watched { REDRAW } else { LINE };
        if so_far < PATIENCE || now.duration_since(state.drawn) < pause {
            return;
        }
        state.drawn = now;
        let (sum, count) = (state.rows.iter().sum(), state.rows.len());
        let done = state.rows.iter().filter(|steps| **steps == STEPS).count();
        if !self.watched {
            eprintln!("hostftl: {}", line(done, count, sum, so_far));
            return;
        }
        let bar = state.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{msg:32} {wide_bar} {percent:>3} %  {eta}");
            let bar = ProgressBar::new(count as u64 * STEPS);
            bar.with_style(style.expect("the template is well formed"))
        });
        bar.set_message(format!("{phase}{done} of {count} rows"));
        bar.set_position(sum);
    }
}

/// Formats a progress line.
fn line(done: usize, count: usize, steps: u64, so_far: Duration) -> String {
    let percent = steps * 100 / (count as u64 * STEPS).max(1);
    let seconds = so_far.as_secs();
    format!("{done} of {count} rows done, {percent} % of the requests, after {seconds} s")
}

impl Watch for Progress {
    fn progress(&self, row: usize, done: u64, total: u64) {
        self.show(row, "", done.saturating_mul(STEPS) / total.max(1));
    }

    fn warming(&self, row: usize, _share: f64) {
        self.show(row, "ageing: ", 0);
    }

    fn noticed(&self, workload: &str, notes: &Notes) {
        if self.warns {
            crate::commands::trace::warn(workload, notes);
        }
    }

    fn unused(&self, subject: &str, texts: &[String]) {
        if self.warns {
            crate::commands::models::warn(subject, texts);
        }
    }

    fn cancelled(&self) -> bool {
        interrupt::asked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rows_percentage_and_time() {
        let line = line(3, 12, 3 * STEPS + 500, Duration::from_millis(30_400));
        assert_eq!(line, "3 of 12 rows done, 29 % of the requests, after 30 s");
    }
}
