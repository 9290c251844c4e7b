//! One class of the sample: its grains, and a model of each candidate.

use hostftl_trace::{Op, Record};

use super::model::{Model, Sectors};
use super::sample::GRAIN;

/// Content of a grain as the models have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// No data.
    Empty,
    /// Data that was on the volume before the shadow started.
    Assumed,
    /// Data that clients wrote since.
    Written,
}

/// A class of the sample.
pub(super) struct Class {
    /// Numbers of the grains in order. A grain's index is its place in the models.
    grains: Vec<u64>,
    contents: Vec<Content>,
    /// Grains with data.
    full: usize,
    /// Grains from this index on are not `Assumed`.
    assumed: usize,
    /// Part of a flush that is due.
    flush: f64,
    /// Sectors written to each grain: in the current span, and in the earlier spans of the measured
    /// period.
    weights: [Vec<u32>; 2],
    /// A model of each candidate, or the reason why there is none.
    pub(super) models: Vec<Result<Model, String>>,
}

impl Class {
    pub(super) fn new(grains: Vec<u64>, models: Vec<Result<Model, String>>) -> Self {
        let count = grains.len();
        let weights = [vec![0; count], vec![0; count]];
        let contents = vec![Content::Empty; count];
        Class { grains, contents, full: 0, assumed: 0, flush: 0.0, weights, models }
    }

    /// Returns the number of grains.
    pub(super) fn len(&self) -> usize {
        self.grains.len()
    }

    /// Fills the first `share` of the grains in order, as data that was there before.
    pub(super) fn fill(&mut self, share: f64) {
        let filled = (self.len() as f64 * share).round() as usize;
        for grain in 0..filled {
            self.pass(&Record::new(0, Op::Write, 0, grain as u64 * GRAIN, GRAIN));
            self.contents[grain] = Content::Assumed;
        }
        (self.full, self.assumed) = (filled, filled);
    }

    /// Applies a request of the clients. `most` is the number of grains that hold data at most.
    pub(super) fn apply(&mut self, record: &Record, rate: f64, most: usize) {
        if record.op == Op::Flush {
            // The sample has fewer writes between flushes, so it gets fewer flushes.
            self.flush += rate;
            if self.flush >= 1.0 {
                self.flush -= 1.0;
                self.pass(record);
            }
            return;
        }
        let (first, last) = (record.lba / GRAIN, (record.end() - 1) / GRAIN);
        let mut at = self.grains.partition_point(|grain| *grain < first);
        while let Some(&grain) = self.grains.get(at).filter(|grain| **grain <= last) {
            let from = record.lba.max(grain * GRAIN);
            let sectors = record.end().min((grain + 1) * GRAIN) - from;
            let lba = at as u64 * GRAIN + from % GRAIN;
            self.pass(&Record { lba, sectors, ..*record });
            match record.op {
                Op::Write => {
                    self.weights[0][at] = self.weights[0][at].saturating_add(sectors as u32);
                    self.hold(at, most);
                }
                _ if sectors == GRAIN && self.contents[at] != Content::Empty => self.empty(at),
                _ => {}
            }
            at += 1;
        }
    }

    /// Marks a grain as written. Data that was assumed makes room for it if there would be more
    /// than `most` grains with data.
    fn hold(&mut self, at: usize, most: usize) {
        let before = std::mem::replace(&mut self.contents[at], Content::Written);
        self.full += usize::from(before == Content::Empty);
        while self.full > most && self.assumed > 0 {
            self.assumed -= 1;
            let last = self.assumed;
            if self.contents[last] == Content::Assumed {
                self.pass(&Record::new(0, Op::Discard, 0, last as u64 * GRAIN, GRAIN));
                self.empty(last);
            }
        }
    }

    fn empty(&mut self, at: usize) {
        self.contents[at] = Content::Empty;
        self.full -= 1;
    }

    /// Passes a request to all models. A model that fails is replaced by the reason.
    fn pass(&mut self, record: &Record) {
        for model in &mut self.models {
            let Ok(running) = model else { continue };
            if let Err(violation) = running.request(record) {
                *model = Err(violation.to_string());
            }
        }
    }

    /// Returns the sectors written so far by each candidate.
    pub(super) fn written(&self) -> Vec<Sectors> {
        let of = |model: &Result<Model, String>| match model {
            Ok(model) => model.written(),
            Err(_) => Sectors::default(),
        };
        self.models.iter().map(of).collect()
    }

    /// Ends a span. The measured period starts with it, or includes it if `is_kept`.
    pub(super) fn end_span(&mut self, is_kept: bool) {
        let [current, former] = &mut self.weights;
        if !is_kept {
            former.fill(0);
        }
        former.iter_mut().zip(current).for_each(|(former, current)| {
            *former = former.saturating_add(std::mem::take(current));
        });
    }

    /// Returns the sum of the writes to each grain in the measured period, and of their squares.
    pub(super) fn weight(&self) -> (f64, f64) {
        let [current, former] = &self.weights;
        let each =
            current.iter().zip(former).map(|(one, other)| f64::from(*one) + f64::from(*other));
        each.fold((0.0, 0.0), |(sum, squares), it| (sum + it, squares + it * it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(grain: u64) -> Record {
        Record::new(0, Op::Write, 0, grain * GRAIN + 8, 8)
    }

    #[test]
    fn data_before_the_start_makes_room_for_new_data() {
        let mut class = Class::new((0..10).map(|at| at * 5).collect(), Vec::new());
        class.fill(0.7);
        assert_eq!((class.full, class.contents[6]), (7, Content::Assumed));
        class.apply(&write(45), 1.0, 7);
        assert_eq!(
            (class.full, class.contents[6], class.contents[9]),
            (7, Content::Empty, Content::Written)
        );
        class.apply(&write(0), 1.0, 7);
        assert_eq!(class.full, 7, "data is replaced in place");
        class.apply(&write(40), 1.0, 9);
        assert_eq!(class.full, 8, "the volume grew");
        class.apply(&Record::new(0, Op::Discard, 0, 0, 50 * GRAIN), 1.0, 9);
        assert_eq!(class.full, 0);
        class.apply(&write(1), 1.0, 9);
        assert_eq!((class.full, class.weight().0), (0, 24.0), "another grain");
    }

    #[test]
    fn flushes_are_as_rare_as_the_writes_of_the_sample() {
        let mut class = Class::new(vec![0], Vec::new());
        let mut due = 0;
        for _ in 0..100 {
            let before = class.flush;
            class.apply(&Record::flush(0, 0), 0.125, 1);
            due += u32::from(class.flush < before);
        }
        assert_eq!(due, 12);
    }
}
