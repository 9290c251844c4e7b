//! Free segments, and the choice of the next one to open.
//!
//! If devices differ in length, some segments are on more devices than others. The segment that is
//! on the fewest devices is opened first, so that the remaining free segments can still be opened
//! after the loss of a device.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Widths;

#[derive(Debug)]
pub(super) struct Free {
    /// Segments that can be opened, the longest free one first.
    list: VecDeque<u32>,
    /// Segments that cannot be opened, because they are on too few of the devices in use.
    narrow: Vec<u32>,
    /// Whether segments differ in their number of devices.
    uneven: bool,
}

impl Free {
    /// Returns a list in which all segments are free.
    pub(super) fn new(list: VecDeque<u32>, uneven: bool) -> Self {
        let narrow = Vec::with_capacity(if uneven { list.len() } else { 0 });
        Free { list, narrow, uneven }
    }

    /// Returns the number of segments that can be opened.
    pub(super) fn count(&self) -> u32 {
        self.list.len() as u32
    }

    /// Returns whether segments differ in their number of devices.
    pub(super) fn is_uneven(&self) -> bool {
        self.uneven
    }

    /// Returns the segments that can be opened.
    pub(super) fn to_open(&self) -> impl Iterator<Item = u32> {
        self.list.iter().copied()
    }

    /// Returns all free segments.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> {
        self.to_open().chain(self.narrow.iter().copied())
    }

    /// Removes all segments.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.narrow.clear();
    }

    /// Sorts the segments again after their widths changed.
    pub(super) fn sort(&mut self, widths: impl Fn(u32) -> Widths) {
        let all = self.all().collect::<Vec<_>>();
        self.clear();
        all.into_iter().for_each(|segment| self.put(segment, widths(segment)));
    }

    /// Adds a segment.
    pub(super) fn put(&mut self, segment: u32, widths: Widths) {
        match widths.opens {
            0 => self.narrow.push(segment),
            _ => self.list.push_back(segment),
        }
    }

    /// Takes the next segment to open.
    pub(super) fn take(&mut self, widths: impl Fn(u32) -> Widths) -> Option<u32> {
        if !self.uneven {
            return self.list.pop_front();
        }
        let owners = |segment: &u32| widths(*segment).owners;
        // Of equal ones the first is taken, which has been free for longest.
        let fewest = self.list.iter().map(owners).min()?;
        let at = self.list.iter().position(|segment| owners(segment) == fewest)?;
        self.list.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns widths of segments on two, three and four devices in turn.
    fn widths(lost: u8) -> impl Fn(u32) -> Widths {
        move |segment| {
            let owners = 2 + segment as u8 % 3;
            Widths { stripes: 0, opens: (owners - 1).saturating_sub(lost), owners }
        }
    }

    #[test]
    fn segments_on_the_fewest_devices_are_opened_first() {
        let mut it = Free::new((0..6).collect(), true);
        let mut take = || it.take(widths(0));
        assert_eq!([take(), take(), take(), take()], [0, 3, 1, 4].map(Some));
        assert_eq!(it.count(), 2);
        it.put(0, widths(0)(0));
        assert_eq!(it.take(widths(0)), Some(0));
        let mut even = Free::new((0..3).collect(), false);
        assert_eq!((even.take(widths(0)), even.take(widths(0))), (Some(0), Some(1)));
    }

    #[test]
    fn free_segments_without_room_for_data_are_not_counted() {
        let mut it = Free::new((0..6).collect(), true);
        it.sort(widths(1));
        assert_eq!((it.count(), it.all().count()), (4, 6));
        assert!(it.to_open().eq([1, 2, 4, 5]));
        it.put(6, widths(1)(6));
        assert_eq!(it.count(), 4, "two devices have it, one of which is lost");
        it.sort(widths(0));
        assert_eq!((it.count(), it.take(widths(0))), (7, Some(0)));
        it.clear();
        assert_eq!(it.all().count(), 0);
    }
}
