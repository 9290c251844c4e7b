//! Progress of copying or clearing a device, on standard error.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::units::bytes;

/// Interval between progress lines if standard error is not a terminal.
const LINE: Duration = Duration::from_secs(30);
const STYLE: &str = "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";

/// Progress of one device; the bar is removed on drop.
#[derive(Debug)]
pub(super) struct Copying {
    watched: bool,
    /// Past participle of the operation, such as *copied*.
    done: &'static str,
    shown: Instant,
    bar: Option<ProgressBar>,
}

impl Copying {
    /// Creates a display: a bar on a terminal (`watched`), otherwise a line every 30 s.
    pub(super) fn new(watched: bool, done: &'static str) -> Self {
        Copying { watched, done, shown: Instant::now(), bar: None }
    }

    /// Shows that `done` bytes of `all` are complete.
    pub(super) fn show(&mut self, done: u64, all: u64) {
        if self.watched {
            let bar = self.bar.get_or_insert_with(|| {
                let style = ProgressStyle::with_template(STYLE).expect("it is a template");
                ProgressBar::new(all).with_style(style)
            });
            bar.set_length(all);
            bar.set_position(done);
        } else if self.shown.elapsed() >= LINE {
            self.shown = Instant::now();
            eprintln!("hostftl: {} of {} {}", bytes(done), bytes(all), self.done);
        }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
