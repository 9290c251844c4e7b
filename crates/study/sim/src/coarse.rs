//! Buckets for durations: sixteen per octave, so each is at most 6 % wide.

/// Bits below the highest set bit that select the bucket within an octave.
const BITS: u32 = 4;
/// Number of buckets.
pub(crate) const BUCKETS: usize = (64 - BITS as usize + 1) << BITS;

/// Returns the bucket of `value`.
#[inline]
pub(crate) fn bucket(value: u64) -> usize {
    let octave = u64::BITS - (value >> BITS).leading_zeros();
    match octave {
        0 => value as usize,
        _ => {
            let below = (value >> (octave - 1)) as usize & ((1 << BITS) - 1);
            ((octave as usize) << BITS) + below
        }
    }
}

/// Returns the greatest value of a bucket.
pub(crate) fn top(bucket: usize) -> u64 {
    let (octave, below) = (bucket >> BITS, (bucket & ((1 << BITS) - 1)) as u64);
    match octave {
        0 => below,
        _ => {
            let first = (1u128 << BITS | u128::from(below)) << (octave - 1);
            (first + (1 << (octave - 1)) - 1) as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_between_the_bounds_of_their_bucket() {
        let near = (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) - 1, 3 << bit >> 1]);
        for value in near.chain(0..5000).chain([u64::MAX, 123_456_789]) {
            let bucket = bucket(value);
            assert!(bucket < BUCKETS && value <= top(bucket), "{value}");
            assert!(bucket == 0 || value > top(bucket - 1), "{value}");
            assert!(top(bucket) as f64 <= value as f64 * 1.0625 + 1.0, "{value}");
        }
    }
}
