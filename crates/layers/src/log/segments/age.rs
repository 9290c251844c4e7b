//! How old what a segment holds is, and so which stream takes what replaces it.

use super::Segments;
use crate::log::row::streams::MAP;

impl Segments {
    /// A record that the host wrote came to a segment: now, or when it was written to segment
    /// `from`.
    #[inline]
    pub fn aged(&mut self, segment: u32, from: Option<u32>) {
        self.now += u64::from(from.is_none());
        let when = from.map_or(self.now as f64, |from| self.list[from as usize].written);
        let it = self.at(segment);
        it.records += 1;
        it.written += (when - it.written) / f64::from(it.records);
    }

    /// How many blocks the host wrote since it wrote what a segment holds, in the mean.
    pub(super) fn age(&self, segment: u32) -> f64 {
        self.now as f64 - self.list[segment as usize].written
    }

    /// The stream of a write that replaces what lies in a segment, if it replaces anything.
    #[inline]
    pub fn stream_of_write(&self, replaced: Option<u32>) -> u8 {
        match replaced {
            Some(segment) => self.separator.of_write(self.age(segment)),
            None => self.separator.of_new(),
        }
    }

    /// The stream of copies of what a segment holds.
    pub fn stream_of_copy(&self, segment: u32) -> u8 {
        self.separator.of_copy(self.list[segment as usize].stream, self.age(segment))
    }

    /// Whether anything may come to a stream.
    pub fn uses(&self, stream: u8) -> bool {
        stream == MAP || self.separator.uses(stream)
    }
}
