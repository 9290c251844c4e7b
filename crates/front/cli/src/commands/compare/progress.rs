//! Progress on standard error: a bar for a run of more than two seconds that somebody watches, and
//! a line now and then where standard error is no terminal.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hostftl_sim::Watch;
use hostftl_trace::Notes;
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt;

/// Runs shorter than this need no bar.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a line comes where nobody watches.
const LINE: Duration = Duration::from_secs(30);
/// How often the bar moves.
const REDRAW: Duration = Duration::from_millis(100);
/// Steps of the bar for each row.
const STEPS: u64 = 1000;

/// The bar over all rows, once there is one.
pub(crate) struct Progress {
    watched: bool,
    /// Whether what is noticed about a workload is said.
    warns: bool,
    begin: Instant,
    state: Mutex<State>,
}

struct State {
    drawn: Instant,
    /// How far each row is, of [`STEPS`].
    rows: Vec<u64>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Will show a bar for so many rows if somebody watches.
    pub(crate) fn new(rows: usize, watched: bool) -> Self {
        let now = Instant::now();
        let state = Mutex::new(State { drawn: now, rows: vec![0; rows], bar: None });
        Progress { watched, warns: true, begin: now, state }
    }

    /// The same for a workload that was run before: what is noticed about it was said then.
    #[must_use]
    pub(crate) fn again(self) -> Self {
        Progress { warns: false, ..self }
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.state().bar.iter().for_each(ProgressBar::finish_and_clear);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how far row `row` is, and shows it when it is time to.
    fn show(&self, row: usize, what: &str, steps: u64) {
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
            let style = ProgressStyle::with_template("{msg:24} {wide_bar} {percent:>3} %  {eta}");
            let bar = ProgressBar::new(count as u64 * STEPS);
            bar.with_style(style.expect("the template is well formed"))
        });
        bar.set_message(format!("{what}{done} of {count} rows"));
        bar.set_position(sum);
    }
}

/// What is said where there is no bar.
fn line(done: usize, count: usize, steps: u64, so_far: Duration) -> String {
    let percent = steps * 100 / (count as u64 * STEPS).max(1);
    let seconds = so_far.as_secs();
    format!("{done} of {count} rows are made, {percent} % of the requests, after {seconds} s")
}

impl Watch for Progress {
    fn progress(&self, row: usize, done: u64, total: u64) {
        self.show(row, "", done.saturating_mul(STEPS) / total.max(1));
    }

    fn warming(&self, row: usize) {
        self.show(row, "ageing: ", 0);
    }

    fn noticed(&self, workload: &str, notes: &Notes) {
        if self.warns {
            crate::commands::trace::warn(workload, notes);
        }
    }

    fn left(&self, device: &str, texts: &[String]) {
        if self.warns {
            crate::commands::models::warn(device, texts);
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
    fn a_line_says_how_far_it_is() {
        let said = line(3, 12, 3 * STEPS + 500, Duration::from_millis(30_400));
        assert_eq!(said, "3 of 12 rows are made, 29 % of the requests, after 30 s");
    }
}
