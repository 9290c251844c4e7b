//! Progress of commands that read a trace: a spinner on a terminal, from the third second on.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use crate::interrupt;
use crate::units::counted;

/// Time before the first display.
const PATIENCE: Duration = Duration::from_secs(2);
/// Number of requests between two checks of the clock and of Ctrl-C.
const STRIDE: u64 = 1 << 16;

/// Number of requests so far, and its display, which is removed on drop.
pub(super) struct Progress {
    watched: bool,
    begin: Instant,
    requests: u64,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Creates a display; `watched` if standard error is a terminal.
    pub(super) fn new(watched: bool) -> Self {
        Progress { watched, begin: Instant::now(), requests: 0, bar: None }
    }

    /// Counts a request. Returns whether to stop.
    pub(super) fn step(&mut self) -> bool {
        self.requests += 1;
        self.requests.is_multiple_of(STRIDE) && self.update()
    }

    /// Updates the display. Returns whether Ctrl-C was pressed.
    fn update(&mut self) -> bool {
        if self.watched && self.begin.elapsed() > PATIENCE {
            let bar = self.bar.get_or_insert_with(ProgressBar::new_spinner);
            bar.set_message(counted(self.requests, "request"));
            bar.tick();
        }
        interrupt::asked()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
