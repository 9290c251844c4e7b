//! Parity: sums of ranges, each multiplied by a factor in GF(256). If all factors are 1 the sum is
//! the XOR. It is computed one cache line at a time, so that all sources are read concurrently.

use hostftl_core::field::double;
use hostftl_core::{Factors, MAX_PIECES};

use crate::Sources;

/// Bytes whose products are summed at once: few, so that they stay in the nearest cache.
const STRIP: usize = 4096;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Replaces `into` by the sum of all of `from` and its old bytes, each multiplied by its factor.
///
/// # Panics
/// When a source differs from `into` in length.
pub(crate) fn fold(from: &Sources<'_>, into: &mut [u8], factors: Factors) {
    let same = from.iter().all(|other| other.len() == into.len());
    assert!(same, "folded ranges have the same length");
    let plain = factors.old <= 1 && factors.new[..from.len()].iter().all(|factor| *factor == 1);
    if plain {
        return add(from, into, factors.old == 1);
    }
    let mut strip = [0; STRIP];
    for (index, into) in into.chunks_mut(STRIP).enumerate() {
        let sum = &mut strip[..into.len()];
        sum.fill(0);
        add_products(from, factors, (index * STRIP, into), sum);
        into.copy_from_slice(sum);
    }
}

/// Adds the products of all sources from byte `at` on, and of `old`, to `sum`. It processes the
/// factors bit by bit (Horner's scheme), so the sum is doubled once per bit of the greatest factor.
fn add_products(from: &Sources<'_>, factors: Factors, (at, old): (usize, &[u8]), sum: &mut [u8]) {
    let all = factors.new[..from.len()].iter().fold(factors.old, |all, factor| all | factor);
    for bit in (0..u8::BITS - all.leading_zeros()).rev() {
        sum.iter_mut().for_each(|byte| *byte = double(*byte));
        for (other, factor) in from.iter().zip(factors.new) {
            if factor >> bit & 1 == 1 {
                add_one(&other[at..at + sum.len()], sum);
            }
        }
        if factors.old >> bit & 1 == 1 {
            add_one(old, sum);
        }
    }
}

fn add_one(from: &[u8], sum: &mut [u8]) {
    sum.iter_mut().zip(from).for_each(|(byte, other)| *byte ^= other);
}

/// Replaces `into` by the XOR of all sources, and of its old bytes if `keep`.
fn add(from: &Sources<'_>, into: &mut [u8], keep: bool) {
    match from.len() {
        0 => add_some::<0>(from, into, keep),
        1 => add_some::<1>(from, into, keep),
        2 => add_some::<2>(from, into, keep),
        3 => add_some::<3>(from, into, keep),
        _ => add_some::<MAX_PIECES>(from, into, keep),
    }
}

/// Implements [`add`] for a constant number of sources, which lets the compiler unroll the loop.
fn add_some<const N: usize>(from: &Sources<'_>, into: &mut [u8], keep: bool) {
    let mut sources = from.iter();
    let from: [&[u8]; N] =
        core::array::from_fn(|_| *sources.next().expect("the counted chunks exist"));
    let (places, rest) = into.as_chunks_mut::<LINE>();
    let (count, whole) = (places.len(), places.len() * LINE);
    let lines = from.map(|other| &other.as_chunks::<LINE>().0[..count]);
    for (index, place) in places.iter_mut().enumerate() {
        let mut sum = if keep { *place } else { [0; LINE] };
        lines.iter().for_each(|lines| xor(&lines[index], &mut sum));
        *place = sum;
    }
    if !keep {
        rest.fill(0);
    }
    from.iter().for_each(|other| add_one(&other[whole..], rest));
}

/// XORs a line into another one.
#[inline(always)]
fn xor(from: &[u8; LINE], into: &mut [u8; LINE]) {
    let (words, places) = (from.as_chunks::<8>().0, into.as_chunks_mut::<8>().0);
    for at in 0..LINE / 8 {
        let sum = u64::from_ne_bytes(places[at]) ^ u64::from_ne_bytes(words[at]);
        places[at] = sum.to_ne_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use hostftl_core::field::product;
    use proptest::prelude::*;

    fn folded(from: &[&[u8]], into: &mut [u8], factors: Factors) {
        fold(&from.iter().copied().collect(), into, factors);
    }

    proptest! {
        #[test]
        fn folding_twice_is_the_identity(bytes: Vec<u8>, more: u8) {
            let before: Vec<u8> = bytes.iter().map(|byte| byte.rotate_left(more.into())).collect();
            let mut after = before.clone();
            folded(&[&bytes, &bytes], &mut after, Factors::ADD);
            prop_assert_eq!(&after, &before);
            folded(&[&bytes, &before, &bytes], &mut after, Factors::SUM);
            prop_assert_eq!(after, before);
        }

        #[test]
        fn each_byte_is_the_sum_of_its_column(
            rows in (0..9000_usize).prop_flat_map(|len| {
                proptest::collection::vec(proptest::collection::vec(any::<u8>(), len), 1..5)
            }), old in 0..3_u8, any_factors: [u8; MAX_PIECES], plain: bool,
        ) {
            let new = if plain { [1; MAX_PIECES] } else { any_factors };
            let factors = Factors { old: if plain { old & 1 } else { old * 99 }, new };
            let (first, rows) = rows.split_first().expect("one at least");
            let slices: Vec<&[u8]> = rows.iter().map(|row| &row[..]).collect();
            let mut into = first.clone();
            folded(&slices, &mut into, factors);
            for (at, byte) in into.iter().enumerate() {
                let begin = product(first[at], factors.old);
                let terms = rows.iter().zip(new).map(|(row, factor)| product(row[at], factor));
                prop_assert_eq!(*byte, terms.fold(begin, |sum, term| sum ^ term));
            }
        }
    }
}
