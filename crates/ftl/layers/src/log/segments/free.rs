//! Free segments, and which of them is opened next.
//!
//! Where devices differ in length, some segments lie on more devices than others. Of those that may
//! be opened the one is taken that the fewest devices have, so that what is left free is what can
//! be opened also on fewer devices, after a loss.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Widths;

#[derive(Debug)]
pub(super) struct Free {
    /// Those that may be opened, the one first that has been free for the longest time.
    list: VecDeque<u32>,
    /// Those that can't be: too few devices on which rows may lie have them.
    narrow: Vec<u32>,
    /// Whether more devices have some than others.
    uneven: bool,
}

impl Free {
    /// All of `list`.
    pub(super) fn new(list: VecDeque<u32>, uneven: bool) -> Self {
        let narrow = Vec::with_capacity(if uneven { list.len() } else { 0 });
        Free { list, narrow, uneven }
    }

    /// How many may be opened.
    pub(super) fn count(&self) -> u32 {
        self.list.len() as u32
    }

    /// Whether more devices have some than others.
    pub(super) fn is_uneven(&self) -> bool {
        self.uneven
    }

    /// Those that may be opened.
    pub(super) fn to_open(&self) -> impl Iterator<Item = u32> {
        self.list.iter().copied()
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> {
        self.to_open().chain(self.narrow.iter().copied())
    }

    /// None is free any more.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.narrow.clear();
    }

    /// Puts each where it belongs now.
    pub(super) fn sort(&mut self, widths: impl Fn(u32) -> Widths) {
        let all = self.all().collect::<Vec<_>>();
        self.clear();
        all.into_iter().for_each(|segment| self.put(segment, widths(segment)));
    }

    /// One more is free.
    pub(super) fn put(&mut self, segment: u32, widths: Widths) {
        match widths.opens {
            0 => self.narrow.push(segment),
            _ => self.list.push_back(segment),
        }
    }

    /// Takes the one that is opened next.
    pub(super) fn take(&mut self, widths: impl Fn(u32) -> Widths) -> Option<u32> {
        if !self.uneven {
            return self.list.pop_front();
        }
        let owners = |segment: &u32| widths(*segment).owners;
        let fewest = self.list.iter().map(owners).min()?;
        let at = self.list.iter().position(|segment| owners(segment) == fewest)?;
        self.list.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Widths of segments that two, three and four devices have, one after the other.
    fn widths(lost: u8) -> impl Fn(u32) -> Widths {
        move |segment| {
            let owners = 2 + segment as u8 % 3;
            Widths { rows: 0, opens: (owners - 1).saturating_sub(lost), owners }
        }
    }

    #[test]
    fn those_are_opened_first_that_the_fewest_devices_have() {
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
    fn those_without_data_are_kept_apart_until_they_can_have_some() {
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
