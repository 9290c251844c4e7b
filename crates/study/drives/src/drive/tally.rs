//! Counting of sectors by cause.

use hostftl_core::{CAUSES, Cause, Tally};

/// Adds a tally to counters by cause. The addition wraps because no counter can overflow, and an
/// unchecked addition is vectorised.
#[inline]
pub(super) fn book(counts: &mut [u64; CAUSES], tally: &Tally) {
    for (count, cause) in counts.iter_mut().zip(Cause::ALL) {
        *count = count.wrapping_add(tally.get(cause).into());
    }
}

/// Takes `sectors` off a tally, in the order of the causes.
#[inline]
pub(super) fn take(tally: &mut Tally, sectors: u32) -> Tally {
    let (mut taken, mut rest, mut left) = (Tally::default(), Tally::default(), sectors);
    for cause in Cause::ALL {
        let has = tally.get(cause);
        let take = has.min(left);
        taken.add(cause, take);
        rest.add(cause, has - take);
        left -= take;
    }
    assert_eq!(left, 0, "the tally of a write is shorter than the write");
    *tally = rest;
    taken
}
