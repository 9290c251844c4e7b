//! Roots in two slots with several copies each. A new root goes into the slot without the newest
//! one, so that a power cut leaves the newest one intact.

use super::reads::Reads;

/// Copies of a root in its slot.
pub(crate) const COPIES: usize = 2;
/// Number of reads for all copies of both slots.
pub(crate) const READS: usize = 2 * COPIES;

/// Returns the newest root of a batch of [`READS`] reads, in which read `slot · COPIES + copy` is
/// that copy. `parse` returns the root of a read if it is valid, and `number` the number of a root.
///
/// # Errors
/// If no root is valid, or a slot is completely unreadable.
pub(crate) fn newest<Root>(
    reads: &Reads,
    parse: impl Fn(usize) -> Option<Root>,
    number: impl Fn(&Root) -> u64,
) -> Result<Root, &'static str> {
    let sound = (0..READS).filter(|index| !reads.failed(*index)).filter_map(parse);
    let best = sound.max_by_key(number).ok_or("no root of the volume can be read")?;
    // An unreadable slot may hold a newer root than the other one.
    let is_unreadable = |slot: usize| (0..COPIES).all(|copy| reads.failed(slot * COPIES + copy));
    if is_unreadable(0) || is_unreadable(1) {
        Err("neither copy of a root can be read")
    } else {
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::Cause;

    use super::*;

    fn reads(failed: [bool; READS]) -> Reads {
        let mut reads = Reads::new(READS, 1);
        for (index, failed) in failed.into_iter().enumerate() {
            let command = reads.begin(index, 0, 0, Cause::Map);
            reads.end(index, command, !failed);
        }
        reads
    }

    #[test]
    fn the_newest_of_the_sound_copies_counts() {
        let numbers = [Some(4), Some(4), None, Some(5)];
        let newest = |failed| newest(&reads(failed), |index| numbers[index], |it: &u64| *it);
        assert_eq!(newest([false; 4]), Ok(5));
        assert_eq!(newest([true, false, true, false]), Ok(5));
        assert_eq!(newest([false, false, true, true]), Err("neither copy of a root can be read"));
        assert_eq!(newest([true; 4]), Err("no root of the volume can be read"));
    }
}
