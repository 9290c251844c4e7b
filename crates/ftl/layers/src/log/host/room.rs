//! Checks the space for host writes on devices that hold less than the volume exports.
//!
//! The bound of the valid data is the capacity of an ordinary volume on these devices, minus the
//! waste at the ends of chunks where the next record did not fit. So garbage collection,
//! checkpoints, rebuilds and trims have the same space as in a full volume of that kind, and
//! recovery needs no more. Writes are refused before the bound is reached, and are throttled close
//! to it.
//!
//! Invariant: valid data, plus writes in progress at their uncompressed size, never exceed the
//! bound.

use hostftl_format::log::GRAIN;

use crate::log::array::Array;
use crate::log::host::Blocks;
use crate::log::layout::BLOCK_OPS;

/// Grains of an uncompressed block.
pub(super) const BLOCK_GRAINS: u64 = 4096 / GRAIN as u64;
/// Divisor of the space: writes are throttled in the last part.
const LAST: u64 = 32;

/// Result of the check for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// It may start.
    Some,
    /// Others have to complete first.
    Later,
    /// It is refused.
    None,
}

impl Blocks {
    /// Returns whether one more block may be written.
    #[inline]
    pub(super) fn room_for_block(&mut self, array: &Array) -> Room {
        let (members, reserves) = (array.data_members(), array.media.segments.reserves());
        let most = self.bound.valid_limit(array.layout(), members, reserves);
        let Some(most) = most else { return Room::Some };
        room(most, array.media.segments.total(), self.writing.len() as u64)
    }
}

/// Returns the same for `valid` valid grains and `writing` blocks in progress.
fn room(most: u64, valid: u64, writing: u64) -> Room {
    let left = most.saturating_sub(valid);
    if left < (writing + 1) * BLOCK_GRAINS {
        return if writing == 0 { Room::None } else { Room::Later };
    }
    let slow = most / LAST;
    let at_once = if left < slow { 1 + left * BLOCK_OPS as u64 / slow } else { u64::MAX };
    if writing < at_once { Room::Some } else { Room::Later }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_become_slow_near_the_end_and_are_refused_at_it() {
        let most = 1 << 26;
        assert_eq!(room(most, 0, 127), Room::Some);
        let near = most - most / LAST / 16;
        let few = BLOCK_OPS as u64 / 16;
        assert_eq!((room(most, near, few), room(most, near, few + 1)), (Room::Some, Room::Later));
        assert_eq!(room(most, most - BLOCK_GRAINS, 0), Room::Some);
        assert_eq!(room(most, most - BLOCK_GRAINS, 1), Room::Later, "the other may need it");
        assert_eq!(room(most, most - BLOCK_GRAINS + 1, 0), Room::None);
        assert_eq!(room(most, most + 1, 0), Room::None);
    }
}
