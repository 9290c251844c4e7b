//! The parameters of the scrambler; `register.rs` has their words.

use super::pages::MOST_SLOTS;

/// What only the scrambler can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The unit of the map, in sectors; 0 = a whole page of the device; [`BY_REQUESTS`] until
    /// [`Params::suit`].
    pub slot: u32,
    /// A page takes no more once so many thousandths of its slots are used, while others do.
    pub util_permille: u32,
    /// Rule 1: a page that was never written is taken while more than so many thousandths of all
    /// pages are such; 0 = while there is one.
    pub sufficient_permille: u32,
    /// Rule 2: a page that the device collects next is taken while so many thousandths of the slots
    /// of what it collects next are unused; 0 = while one has room.
    pub enough_permille: u32,
    /// Pages written from one question about what the device collects to the next; 0 = it is never
    /// asked.
    pub refresh: u32,
}

/// The slot is chosen by what is asked first.
pub(crate) const BY_REQUESTS: u32 = u32::MAX;
/// The largest slot that is chosen so, and the default: 4 KiB.
const LARGEST: u32 = 8;

impl Params {
    /// Chooses the slot, where it is to be chosen, for writes in whole multiples of `grain` sectors
    /// and a device with pages of `page` sectors, 0 where that is not known: the largest that none
    /// of the writes takes a part of, so that the map is no larger than it must be.
    pub fn suit(&mut self, grain: u32, page: u32) {
        if self.slot == BY_REQUESTS {
            let wanted = 1 << grain.trailing_zeros().min(LARGEST.trailing_zeros());
            self.slot = page.div_ceil(MOST_SLOTS).max(wanted);
        }
    }
}

impl Default for Params {
    fn default() -> Self {
        Params {
            slot: LARGEST,
            util_permille: 1000,
            sufficient_permille: 0,
            enough_permille: 0,
            refresh: 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_by_requests_is_the_largest_that_they_are_whole_multiples_of() {
        let chosen = |(grain, page): (u32, u32)| {
            let mut params = Params { slot: BY_REQUESTS, ..Params::default() };
            params.suit(grain, page);
            params.slot
        };
        assert_eq!([1, 2, 4, 8, 32, 6].map(|it| chosen((it, 32))), [1, 2, 4, 8, 8, 2]);
        assert_eq!([(1, 128), (8, 128), (1, 0), (4, 1024)].map(chosen), [2, 8, 1, 16]);
        let mut said = Params { slot: 4, ..Params::default() };
        said.suit(1, 32);
        assert_eq!(said.slot, 4, "what was said stays");
    }
}
