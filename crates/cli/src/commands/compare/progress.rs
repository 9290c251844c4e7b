//! A progress bar on standard error, for a run of more than two seconds that somebody watches.

use std::time::{Duration, Instant};

use hostftl_sim::Watch;
use hostftl_trace::Notes;
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt;

/// Runs shorter than this need no bar.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the bar moves.
const REDRAW: Duration = Duration::from_millis(100);

/// The bar, once there is one.
pub struct Progress {
    names: Vec<&'static str>,
    watched: bool,
    begin: Instant,
    drawn: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Will show a bar for the rows `names` if somebody watches.
    pub fn new(names: Vec<&'static str>, watched: bool) -> Self {
        let now = Instant::now();
        Progress { names, watched, begin: now, drawn: now, bar: None }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

impl Progress {
    /// Shows how far row `row` is, when it is time to.
    fn show(&mut self, row: usize, what: &str, done: u64, total: u64) {
        let now = Instant::now();
        let early = now.duration_since(self.begin) < PATIENCE;
        if !self.watched || early || now.duration_since(self.drawn) < REDRAW {
            return;
        }
        self.drawn = now;
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{msg:24} {wide_bar} {percent:>3} %  {eta}");
            ProgressBar::new(0).with_style(style.expect("the template is well formed"))
        });
        bar.set_message(format!("{what}{} {}/{}", self.names[row], row + 1, self.names.len()));
        bar.set_length(total);
        bar.set_position(done);
    }
}

impl Watch for Progress {
    fn progress(&mut self, row: usize, done: u64, total: u64) {
        self.show(row, "", done, total);
    }

    fn warming(&mut self, row: usize) {
        self.show(row, "ageing: ", 0, 1);
    }

    fn noticed(&mut self, notes: &Notes) {
        crate::commands::trace::warn(notes);
    }

    fn cancelled(&self) -> bool {
        interrupt::asked()
    }
}
