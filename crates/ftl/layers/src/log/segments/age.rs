//! How old what a segment holds is, and so which stream takes what replaces it.

use super::Segments;
use crate::log::row::streams::MAP;

impl Segments {
    /// A record that the host wrote came to a segment: now, or when it was written to segment
    /// `from`.
    #[inline]
    pub(crate) fn aged(&mut self, segment: u32, from: Option<u32>) {
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

    /// The host writes a block, and replaces what lies in a segment, if it replaces anything.
    #[inline]
    pub(crate) fn wrote(&mut self, block: u64, replaced: Option<u32>) {
        let age = replaced.map(|segment| self.age(segment));
        self.separator.wrote(block, age);
    }

    /// The stream of a write to a block that replaces what lies in a segment, if it replaces
    /// anything.
    #[inline]
    pub(crate) fn stream_of_write(&self, block: u64, replaced: Option<u32>) -> u8 {
        self.separator.of_write_to(block, replaced.map(|segment| self.age(segment)))
    }

    /// The stream of trims, and of what nothing is known of.
    pub(crate) fn stream_of_new(&self) -> u8 {
        self.separator.of_new()
    }

    /// The stream of a copy of a block that lies in a segment.
    #[inline]
    pub(crate) fn stream_of_copy(&self, block: u64, segment: u32) -> u8 {
        let (stream, age) = (self.list[segment as usize].stream, self.age(segment));
        self.separator.of_copy_of(block, stream, age)
    }

    /// Whether what lies in one segment may go to several streams.
    pub(crate) fn tells_blocks_apart(&self) -> bool {
        self.separator.tells_blocks_apart()
    }

    /// Whether anything may come to a stream.
    pub(crate) fn uses(&self, stream: u8) -> bool {
        stream == MAP || self.separator.uses(stream)
    }
}
