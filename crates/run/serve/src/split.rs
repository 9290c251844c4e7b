//! Splits a long request into parts within the volume's limit.

use hostftl_core::next_cut;

/// Returns the parts of `offset..offset + length`, each at most `max` bytes. Cuts are at multiples
/// of `align`, which divides `max`.
pub(crate) fn parts(
    offset: u64,
    length: u32,
    max: u32,
    align: u32,
) -> impl Iterator<Item = (u64, u32)> {
    let end = offset + u64::from(length);
    let mut at = offset;
    std::iter::from_fn(move || {
        let cut = next_cut(at, end, max.into(), align.into());
        let part = (at, (cut - at) as u32);
        at = cut;
        (part.1 > 0).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_short_request_is_left_whole() {
        assert_eq!(parts(512, 4096, 4096, 4096).collect::<Vec<_>>(), [(512, 4096)]);
    }

    proptest! {
        #[test]
        fn parts_cover_the_request(
            offset in 0u64..1 << 40,
            length in 1u32..33 << 20,
            align in prop_oneof![Just(512u32), Just(4096), Just(65536), Just(12288)],
            units in 1u32..40,
        ) {
            let max = align * units;
            let all: Vec<_> = parts(offset, length, max, align).collect();
            let mut at = offset;
            for (start, bytes) in &all {
                prop_assert_eq!(*start, at);
                prop_assert!(*bytes > 0 && *bytes <= max);
                at += u64::from(*bytes);
                prop_assert!(at == offset + u64::from(length) || at % u64::from(align) == 0);
            }
            prop_assert_eq!(at, offset + u64::from(length));
            prop_assert!(length > max || all.len() == 1);
        }
    }
}
