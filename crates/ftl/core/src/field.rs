//! Arithmetic of GF(2⁸), the field in which parity is computed. Elements are bytes, addition is
//! XOR, and multiplication is that of polynomials modulo x⁸ + x⁴ + x³ + x² + 1 (H. P. Anvin, The
//! mathematics of RAID-6, 2004).

use crate::MAX_PIECES;

/// Order of the element 2: its powers are all elements except 0, then repeat.
const ORDER: u32 = 255;

/// Returns the product of 2 and a byte.
#[inline(always)]
pub const fn double(byte: u8) -> u8 {
    (byte << 1) ^ ((byte >> 7) * 0x1d)
}

/// Returns the product of two bytes.
pub const fn product(one: u8, other: u8) -> u8 {
    let (mut sum, mut bit) = (0, 8);
    while bit > 0 {
        bit -= 1;
        sum = double(sum) ^ ((other >> bit & 1) * one);
    }
    sum
}

/// Returns the element 2 to the power of `exponent`.
pub const fn power(exponent: u32) -> u8 {
    let (mut left, mut value) = (exponent % ORDER, 1);
    while left > 0 {
        (value, left) = (double(value), left - 1);
    }
    value
}

/// Returns the multiplicative inverse of a byte.
///
/// # Panics
/// When the byte is 0.
pub const fn inverse(byte: u8) -> u8 {
    assert!(byte != 0, "the divisor is not 0");
    // The inverse is the power 254: the product of the powers 2, 4, …, 128.
    let (mut square, mut value, mut left) = (byte, 1, 7);
    while left > 0 {
        square = product(square, square);
        (value, left) = (product(value, square), left - 1);
    }
    value
}

/// Factors of the ranges that [`crate::Command::Fold`] adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factors {
    /// Factor of the previous content of the target.
    pub old: u8,
    /// Factor of each source.
    pub new: [u8; MAX_PIECES],
}

impl Factors {
    /// Sum of the sources.
    pub const SUM: Factors = Factors { old: 0, new: [1; MAX_PIECES] };
    /// Sum of the sources and the previous content of the target.
    pub const ADD: Factors = Factors { old: 1, ..Factors::SUM };

    /// Returns the factors for the sum of the sources, plus the previous content of the target if
    /// `keep`.
    #[inline]
    pub const fn plain(keep: bool) -> Self {
        if keep { Self::ADD } else { Self::SUM }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_a_field() {
        for a in 0..=255_u8 {
            assert_eq!((product(a, 1), product(1, a), product(a, 2)), (a, a, double(a)));
            assert!(a == 0 || product(a, inverse(a)) == 1, "{a}");
            for b in 0..=255_u8 {
                assert_eq!(product(a, b), product(b, a));
                let c = a.rotate_left(3) ^ b;
                assert_eq!(product(a, b ^ c), product(a, b) ^ product(a, c));
            }
        }
    }

    #[test]
    fn two_has_all_elements_but_zero_as_its_powers() {
        let mut seen = [false; 256];
        (0..ORDER).for_each(|it| seen[usize::from(power(it))] = true);
        assert!(!seen[0] && seen[1..].iter().all(|seen| *seen));
        assert_eq!((power(8), power(ORDER)), (0x1d, 1));
    }
}
