//! Parameters of `scrambler`; `register.rs` parses them.

use super::pages::MOST_SLOTS;

/// Parameters of `scrambler` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Unit of the map in sectors; 0 for a whole page of the device; [`BY_REQUESTS`] until
    /// [`Params::suit`] has chosen it.
    pub slot: u32,
    /// Share of used slots, in thousandths, beyond which a page is not filled while others have
    /// room.
    pub util_permille: u32,
    /// Rule 1: an unwritten page is used while more than this share of all pages, in thousandths,
    /// is unwritten; 0: while there is one.
    pub sufficient_permille: u32,
    /// Rule 2: a page in the device's next victim is used while at least this share of the victim's
    /// slots, in thousandths, is unused; 0: while one has room.
    pub enough_permille: u32,
    /// Pages written between two queries of the next victim; 0 to never query.
    pub refresh: u32,
}

/// Slot size that [`Params::suit`] still has to choose.
pub(crate) const BY_REQUESTS: u32 = u32::MAX;
/// The default slot size, and the largest that [`Params::suit`] chooses: 4 KiB.
pub(super) const DEFAULT_SLOT: u32 = 8;

impl Params {
    /// Chooses the slot size if it is [`BY_REQUESTS`]. Writes are multiples of `grain` sectors, and
    /// pages of the device have `page` sectors (0 if unknown). The choice is the largest size of
    /// which no write covers only a part, so that the map is as small as possible.
    pub fn suit(&mut self, grain: u32, page: u32) {
        if self.slot == BY_REQUESTS {
            let wanted = 1 << grain.trailing_zeros().min(DEFAULT_SLOT.trailing_zeros());
            self.slot = page.div_ceil(MOST_SLOTS).max(wanted);
        }
    }
}

impl Default for Params {
    fn default() -> Self {
        Params {
            slot: DEFAULT_SLOT,
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
    fn auto_slots_are_the_largest_aligned_size() {
        let chosen = |(grain, page): (u32, u32)| {
            let mut params = Params { slot: BY_REQUESTS, ..Params::default() };
            params.suit(grain, page);
            params.slot
        };
        assert_eq!([1, 2, 4, 8, 32, 6].map(|it| chosen((it, 32))), [1, 2, 4, 8, 8, 2]);
        assert_eq!([(1, 128), (8, 128), (1, 0), (4, 1024)].map(chosen), [2, 8, 1, 16]);
        let mut given = Params { slot: 4, ..Params::default() };
        given.suit(1, 32);
        assert_eq!(given.slot, 4, "a given size is kept");
    }
}
