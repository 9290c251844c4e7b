//! Age of the data in segments, from which the streams of new data follow.

use super::Segments;
use crate::log::stripe::streams::MAP;

impl Segments {
    /// Counts a record in a segment: written by the host now, or copied from segment `from`.
    #[inline]
    pub(crate) fn aged(&mut self, segment: u32, from: Option<u32>) {
        self.now += u64::from(from.is_none());
        let when = from.map_or(self.now as f64, |from| self.list[from as usize].written);
        let it = self.at(segment);
        it.records += 1;
        it.written += (when - it.written) / f64::from(it.records);
    }

    /// Returns the mean age of the data in a segment, in blocks written by the host since.
    pub(super) fn age(&self, segment: u32) -> f64 {
        self.now as f64 - self.list[segment as usize].written
    }

    /// Notes a host write to a block, and the segment of the version that it replaces, if any.
    #[inline]
    pub(crate) fn wrote(&mut self, block: u64, replaced: Option<u32>) {
        let age = replaced.map(|segment| self.age(segment));
        self.separator.wrote(block, age);
    }

    /// Returns the stream of a write to a block, given the segment of the version that it replaces,
    /// if any.
    #[inline]
    pub(crate) fn stream_of_write(&self, block: u64, replaced: Option<u32>) -> u8 {
        self.separator.for_write_to(block, replaced.map(|segment| self.age(segment)))
    }

    /// Returns the stream of trims, and of data without history.
    pub(crate) fn stream_of_new(&self) -> u8 {
        self.separator.for_new()
    }

    /// Returns the stream of a copy of a block from a segment.
    #[inline]
    pub(crate) fn stream_of_copy(&self, block: u64, segment: u32) -> u8 {
        let (stream, age) = (self.list[segment as usize].stream, self.age(segment));
        self.separator.for_copy_from(block, stream, age)
    }

    /// Returns whether the data of one segment may go to several streams.
    pub(crate) fn separates_blocks(&self) -> bool {
        self.separator.separates_blocks()
    }

    /// Returns whether a stream may receive data.
    pub(crate) fn uses(&self, stream: u8) -> bool {
        stream == MAP || self.separator.uses(stream)
    }
}
