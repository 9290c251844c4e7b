//! Live grains of segments as they were when the last root was begun, for its image of them.

use super::{Segments, State};
use crate::planted::{Bug, planted};

impl Segments {
    /// Live grains of the host's data, as they were when the last root was begun.
    pub fn count(&self, segment: u32) -> u32 {
        let it = &self.list[segment as usize];
        match it.counted_at == self.roots as u32 && !planted(Bug::CountsNotFrozen) {
            true => it.counted,
            false => it.of_data(),
        }
    }

    /// Sets what [`Segments::count`] was when the root was begun that is recovered.
    pub fn set_count(&mut self, segment: u32, grains: u32) {
        self.claim(segment, false);
        self.at(segment).live += grains;
        self.total += u64::from(grains);
    }

    /// Keeps what a segment had when the last root was begun.
    pub(super) fn freeze(&mut self, segment: u32) {
        let root = self.roots as u32;
        let it = self.at(segment);
        if it.counted_at != root {
            (it.counted, it.counted_at) = (it.of_data(), root);
        }
    }

    /// Whether what is counted of full segments is what they have.
    pub fn check(&self) -> bool {
        let full = self.list.iter().filter(|it| it.state == State::Full && !it.of_map);
        full.clone().map(|it| u64::from(it.live)).sum::<u64>() == self.in_full
            && full.count() as u64 == self.full
    }
}
