//! How many requests were read, for a command of more than two seconds that somebody watches.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use crate::interrupt;
use crate::units::counted;

/// Commands shorter than this say nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// Requests between two looks at the clock.
const STRIDE: u64 = 1 << 16;

/// The requests so far.
pub(super) struct Progress {
    watched: bool,
    begin: Instant,
    requests: u64,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Will say how far it is if somebody watches.
    pub(super) fn new(watched: bool) -> Self {
        Progress { watched, begin: Instant::now(), requests: 0, bar: None }
    }

    /// One more request; whether to stop now.
    pub(super) fn step(&mut self) -> bool {
        self.requests += 1;
        self.requests.is_multiple_of(STRIDE) && self.look()
    }

    fn look(&mut self) -> bool {
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
