//! Parity: the XOR of ranges.

use crate::Sources;
use crate::tools::Tools;

/// Bytes that are folded at once: few, so that all that is read comes at about the same time.
const STRIP: usize = 1024;

/// `into` becomes the XOR of all of `from`, and of what it held if that is kept.
///
/// # Panics
/// When a source is shorter or longer than `into`.
pub fn fold(from: &Sources<'_>, into: &mut [u8], keep: bool, tools: &Tools) {
    let same = from.iter().all(|other| other.len() == into.len());
    assert!(same, "only ranges of one length can be folded");
    let mut sum = [0; STRIP];
    for (index, into) in into.chunks_mut(STRIP).enumerate() {
        let (at, len) = (index * STRIP, into.len());
        let sum = &mut sum[..len];
        let mut strips = from.iter().map(|other| &other[at..at + len]);
        match if keep { Some(&*into) } else { strips.next() } {
            Some(first) => sum.copy_from_slice(first),
            None => sum.fill(0),
        }
        strips.for_each(|other| xor(other, sum));
        tools.copy(sum, into);
    }
}

/// XORs `from` into `into`, which is as long.
fn xor(from: &[u8], into: &mut [u8]) {
    for (byte, other) in into.iter_mut().zip(from) {
        *byte ^= other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn folded(from: &[&[u8]], into: &mut [u8], keep: bool) {
        fold(&from.iter().copied().collect(), into, keep, &Tools::default());
    }

    proptest! {
        #[test]
        fn folding_twice_changes_nothing(bytes: Vec<u8>, more: u8) {
            let before: Vec<u8> = bytes.iter().map(|byte| byte.rotate_left(more.into())).collect();
            let mut after = before.clone();
            folded(&[&bytes, &bytes], &mut after, true);
            prop_assert_eq!(&after, &before);
            folded(&[&bytes, &before, &bytes], &mut after, false);
            prop_assert_eq!(after, before);
        }

        #[test]
        fn each_byte_is_the_sum_of_its_column(
            rows in (0..3000_usize).prop_flat_map(|len| {
                proptest::collection::vec(proptest::collection::vec(any::<u8>(), len), 1..5)
            }), keep: bool,
        ) {
            let (old, rows) = rows.split_first().expect("one at least");
            let slices: Vec<&[u8]> = rows.iter().map(|row| &row[..]).collect();
            let mut into = old.clone();
            folded(&slices, &mut into, keep);
            for (at, byte) in into.iter().enumerate() {
                let first = if keep { old[at] } else { 0 };
                prop_assert_eq!(*byte, rows.iter().fold(first, |sum, row| sum ^ row[at]));
            }
        }
    }
}
