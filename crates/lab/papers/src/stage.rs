//! Progress of the parts of a whole, reported as progress of the whole.

use std::sync::{Mutex, PoisonError};

use crate::Watch;

/// Units of the whole.
const WHOLE: u64 = 1_000_000;

/// A part of the whole. It observes its part and reports to the observer of the whole.
///
/// Reported progress never decreases, even if threads report their progress out of order.
pub struct Stage<'a> {
    watch: &'a dyn Watch,
    /// Progress of the whole at the beginning and at the end of the part.
    begin: u64,
    end: u64,
    /// Greatest reported progress.
    reached: Mutex<u64>,
}

impl<'a> Stage<'a> {
    /// Creates the part that is the whole.
    pub(crate) fn whole(watch: &'a dyn Watch) -> Self {
        Stage { watch, begin: 0, end: WHOLE, reached: Mutex::new(0) }
    }
}

/// Splits the progress of `watch` into consecutive parts with these weights.
pub fn stages(watch: &dyn Watch, weights: impl IntoIterator<Item = u64>) -> Vec<Stage<'_>> {
    let weights: Vec<u64> = weights.into_iter().collect();
    let all = u128::from(weights.iter().sum::<u64>().max(1));
    let units = |sum: u64| (u128::from(WHOLE) * u128::from(sum) / all) as u64;
    let mut sum = 0;
    let stage = |weight| {
        let begin = units(sum);
        sum += weight;
        Stage { watch, begin, end: units(sum), reached: Mutex::new(begin) }
    };
    weights.into_iter().map(stage).collect()
}

impl Watch for Stage<'_> {
    fn progress(&self, what: &str, done: usize, of: usize) {
        let share = done as f64 / of.max(1) as f64;
        let units = self.begin + ((self.end - self.begin) as f64 * share.min(1.0)) as u64;
        // Held during the report, so that a later report cannot overtake this one.
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        *reached = units.max(*reached);
        self.watch.progress(what, *reached as usize, WHOLE as usize);
    }

    fn cancelled(&self) -> bool {
        self.watch.cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records the reported percentages.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<usize>>);

    impl Watch for Recorder {
        fn progress(&self, _what: &str, done: usize, of: usize) {
            self.0.lock().unwrap().push(done * 100 / of);
        }

        fn cancelled(&self) -> bool {
            false
        }
    }

    #[test]
    fn parts_of_parts_are_one_rising_percentage() {
        let recorder = Recorder::default();
        for part in stages(&recorder, [10, 0, 30]) {
            part.progress("it begins", 0, 7);
            for inner in stages(&part, [1, 1]) {
                // The third report is late.
                [0, 2, 1, 4].into_iter().for_each(|done| inner.progress("within", done, 4));
            }
        }
        let first = [0, 0, 6, 6, 12, 12, 18, 18, 25];
        let empty = [25; 9];
        let last = [25, 25, 43, 43, 62, 62, 81, 81, 100];
        assert_eq!(*recorder.0.lock().unwrap(), [first, empty, last].concat());
    }

    #[test]
    fn a_whole_without_weights_and_parts_without_steps_are_possible() {
        let recorder = Recorder::default();
        for part in stages(&recorder, [0, 0]) {
            part.progress("", 0, 0);
            part.progress("", 9, 3);
        }
        assert_eq!(*recorder.0.lock().unwrap(), [0; 4]);
    }
}
