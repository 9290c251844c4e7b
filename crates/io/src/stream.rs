//! Copying past the caches.
//!
//! What is copied into a row is read next by a device. Its memory then belongs to whatever
//! processor or machine did that, and to write it again by the usual way means to get every line
//! back first: with several GB/s under way that takes many times as long as the copy itself.

/// Bytes from which it pays; what is shorter is copied the usual way.
const LONG: usize = 1024;
/// Bytes of a line of the caches.
const LINE: usize = 64;

/// Copies `from` to `into`, which is as long, and lets no whole line of `into` into the caches. On
/// other processors than x86-64 it is a copy like any other.
///
/// # Panics
/// When they differ in length.
pub fn copy(from: &[u8], into: &mut [u8]) {
    assert_eq!(from.len(), into.len(), "a copy is as long as what is copied");
    if into.len() < LONG {
        return into.copy_from_slice(from);
    }
    let head = into.as_ptr().align_offset(LINE);
    // Lines that are not wholly ours may be in a cache already, because of what lies before.
    let (first, from) = from.split_at(head);
    let (before, into) = into.split_at_mut(head);
    before.copy_from_slice(first);
    let (lines, rest) = from.as_chunks::<LINE>();
    let (places, behind) = into.as_chunks_mut::<LINE>();
    lines.iter().zip(places).for_each(|(line, place)| put(line, place));
    behind.copy_from_slice(rest);
    fence();
}

/// Puts one line, which begins where a line of the caches does.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn put(line: &[u8; LINE], place: &mut [u8; LINE]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let (line, place): (*const __m128i, *mut __m128i) =
        (line.as_ptr().cast(), place.as_mut_ptr().cast());
    for part in 0..LINE / size_of::<__m128i>() {
        // SAFETY: both are within their lines, `place` is aligned, and every x86-64 has SSE2.
        unsafe { _mm_stream_si128(place.add(part), _mm_loadu_si128(line.add(part))) };
    }
}

/// What was put is there for whoever hears of it afterwards.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn fence() {
    // SAFETY: it only orders writes, and every x86-64 has SSE.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
fn put(line: &[u8; LINE], place: &mut [u8; LINE]) {
    *place = *line;
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
fn fence() {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Wherever it begins and ends, it changes its range and nothing else.
        #[test]
        fn it_copies_just_its_range(
            bytes in proptest::collection::vec(1..=255_u8, 0..3 * LONG), at in 0..2 * LINE,
        ) {
            let mut into = vec![0; bytes.len() + 4 * LINE];
            copy(&bytes, &mut into[at..at + bytes.len()]);
            let mut wanted = vec![0; into.len()];
            wanted[at..at + bytes.len()].copy_from_slice(&bytes);
            prop_assert_eq!(into, wanted);
        }
    }
}
