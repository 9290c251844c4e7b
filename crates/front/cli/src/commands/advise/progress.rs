//! Progress of all rounds of an advice on standard error, with the time left: a bar on a terminal,
//! otherwise a line every 10 s.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hostftl_frontend::advise::Round;
use hostftl_sim::Watch;
use hostftl_trace::Notes;
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt;

/// Time before the first display.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval between progress lines if standard error is not a terminal.
const LINE: Duration = Duration::from_secs(10);
/// Interval between updates of the bar.
const REDRAW: Duration = Duration::from_millis(100);
/// Share of a row that is ageing.
const AGEING: f64 = 0.8;
/// Steps of the bar.
const STEPS: f64 = 1000.0;

/// Progress of all rounds.
pub(super) struct Progress {
    watched: bool,
    begin: Instant,
    /// Rounds that will run, with their shares of the whole time.
    rounds: Vec<(Round, f64)>,
    state: Mutex<State>,
}

struct State {
    round: Option<Round>,
    /// Number of the round, and the range of the whole time that its current study takes.
    number: usize,
    from: f64,
    to: f64,
    /// Progress of each row of the current study, from 0 to 1.
    rows: Vec<f64>,
    drawn: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Creates the display of `rounds` with their shares; `watched` if standard error is a
    /// terminal.
    pub(super) fn new(rounds: Vec<(Round, f64)>, watched: bool) -> Self {
        let begin = Instant::now();
        let (round, rows, bar) = (None, Vec::new(), None);
        let state = State { round, number: 0, from: 0.0, to: 0.0, rows, drawn: begin, bar };
        Progress { watched, begin, rounds, state: Mutex::new(state) }
    }

    /// Begins a study with a number of rows. A round may have several, whose number is not known
    /// in advance: each takes half of the time that is left for the round.
    pub(super) fn begin(&self, round: Round, rows: usize) {
        let mut state = self.state();
        let at = self.rounds.iter().position(|(it, _)| *it == round).unwrap_or(0);
        let share = |rounds: &[(Round, f64)]| rounds.iter().map(|(_, share)| share).sum::<f64>();
        let end = share(&self.rounds[..=at]);
        let is_repeated = state.round == Some(round);
        let from = if is_repeated { state.to } else { share(&self.rounds[..at]) };
        let has_several = round == Round::Finalists;
        let to = if has_several { (from + end) / 2.0 } else { end };
        (state.round, state.number, state.from, state.to) = (Some(round), at + 1, from, to);
        state.rows = vec![0.0; rows];
    }

    /// Removes the bar.
    pub(super) fn clear(&self) {
        self.state().bar.iter().for_each(ProgressBar::finish_and_clear);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the progress of a row, and updates the display when it is due.
    fn show(&self, row: usize, done: f64) {
        let mut state = self.state();
        if let Some(known) = state.rows.get_mut(row) {
            *known = done;
        }
        let now = Instant::now();
        let so_far = now.duration_since(self.begin);
        let pause = if self.watched { REDRAW } else { LINE };
        if so_far < PATIENCE || now.duration_since(state.drawn) < pause {
            return;
        }
        state.drawn = now;
        let in_study = state.rows.iter().sum::<f64>() / state.rows.len().max(1) as f64;
        let done = state.from + (state.to - state.from) * in_study;
        let (number, name) = (state.number, state.round.map_or("", Round::name));
        let title = format!("{number}/{} {name}", self.rounds.len());
        if !self.watched {
            eprintln!("hostftl: {title}: {}", line(done, so_far));
            return;
        }
        let bar = state.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{msg:44} {wide_bar} {percent:>3} %");
            let bar = ProgressBar::new(STEPS as u64);
            bar.with_style(style.expect("the template is well formed"))
        });
        bar.set_message(format!("{title}{}", left(done, so_far)));
        bar.set_position((STEPS * done) as u64);
    }
}

/// Formats a progress line.
fn line(done: f64, so_far: Duration) -> String {
    let (percent, seconds) = ((100.0 * done) as u64, so_far.as_secs());
    format!("{percent} % of all rounds after {seconds} s{}", left(done, so_far))
}

/// Formats the time that is left if the rest takes as long for its share as the part that is done.
fn left(done: f64, so_far: Duration) -> String {
    if done < 0.02 {
        return String::new();
    }
    let seconds = so_far.as_secs_f64() * (1.0 - done).max(0.0) / done;
    format!(", about {seconds:.0} s left")
}

impl Watch for Progress {
    fn progress(&self, row: usize, done: u64, total: u64) {
        self.show(row, AGEING + (1.0 - AGEING) * done as f64 / total.max(1) as f64);
    }

    fn warming(&self, row: usize, share: f64) {
        self.show(row, AGEING * share);
    }

    fn noticed(&self, workload: &str, notes: &Notes) {
        if self.state().round == Some(Round::Layers) {
            crate::commands::trace::warn(workload, notes);
        }
    }

    fn unused(&self, subject: &str, texts: &[String]) {
        if self.state().round == Some(Round::Layers) {
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
    fn a_line_has_the_time_left_over_all_rounds() {
        let line = line(0.25, Duration::from_millis(20_400));
        assert_eq!(line, "25 % of all rounds after 20 s, about 61 s left");
        assert_eq!(super::line(0.0, PATIENCE), "0 % of all rounds after 2 s");
    }

    #[test]
    fn studies_of_a_round_share_its_time() {
        let rounds = vec![(Round::Layers, 0.5), (Round::Finalists, 0.5)];
        let progress = Progress::new(rounds, false);
        let range = |round| {
            progress.begin(round, 1);
            let state = progress.state();
            (state.from, state.to)
        };
        assert_eq!(range(Round::Layers), (0.0, 0.5));
        assert_eq!(range(Round::Finalists), (0.5, 0.75));
        assert_eq!(range(Round::Finalists), (0.75, 0.875));
    }
}
