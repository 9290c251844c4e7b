//! How far a copy of a device, or its clearing, is, on standard error.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::units::bytes;

/// How often a line is written where nobody watches.
const LINE: Duration = Duration::from_secs(30);
const STYLE: &str = "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";

#[derive(Debug)]
pub(super) struct Copying {
    watched: bool,
    /// The past participle of the work, such as *copied*.
    done: &'static str,
    told: Instant,
    bar: Option<ProgressBar>,
}

impl Copying {
    /// With a bar if somebody watches, else with a line now and then.
    pub(super) fn new(watched: bool, done: &'static str) -> Self {
        Copying { watched, done, told: Instant::now(), bar: None }
    }

    /// `done` bytes of `all` are done.
    pub(super) fn tell(&mut self, done: u64, all: u64) {
        if self.watched {
            let bar = self.bar.get_or_insert_with(|| {
                let style = ProgressStyle::with_template(STYLE).expect("it is a template");
                ProgressBar::new(all).with_style(style)
            });
            bar.set_length(all);
            bar.set_position(done);
        } else if self.told.elapsed() >= LINE {
            self.told = Instant::now();
            eprintln!("hostftl: {} of {} {}", bytes(done), bytes(all), self.done);
        }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
