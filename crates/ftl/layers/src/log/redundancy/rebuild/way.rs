//! The ways in which a chunk can be made from others: see the module above.

use hostftl_core::field::{inverse, power, product};

use super::Chunk;

/// So many ways there are at most.
pub(super) const WAYS: u8 = 2 + 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A data chunk from this parity, or this parity, and all other data.
    Parity(u8),
    /// From both parities and all data but this chunk.
    Without(u8),
}

impl Way {
    /// They are tried in this order; parity is made in one way only.
    pub(super) fn number(number: u8, wanted: Chunk) -> Self {
        match (wanted, number.checked_sub(2)) {
            (Chunk::Parity(which), _) => Way::Parity(which),
            (_, None) => Way::Parity(number),
            (_, Some(chunk)) => Way::Without(chunk),
        }
    }

    /// The data chunk that it does without.
    pub(super) fn without(self) -> Option<Chunk> {
        match self {
            Way::Parity(_) => None,
            Way::Without(chunk) => Some(Chunk::Data(chunk)),
        }
    }

    /// The parities that it needs, as a set of bits.
    pub(super) fn needs(self, wanted: Chunk) -> u32 {
        match (wanted, self) {
            (Chunk::Parity(_), _) => 0,
            (_, Way::Parity(which)) => 1 << which,
            (_, Way::Without(_)) => 0b11,
        }
    }

    /// The factor of a chunk in the sum that makes another one.
    pub(super) fn factor(self, chunk: Chunk, wanted: Chunk) -> u8 {
        let (first, second) = match (wanted, self) {
            (Chunk::Parity(_), Way::Parity(0)) => (1, 0),
            (Chunk::Parity(_), _) => (0, 1),
            (Chunk::Data(_), Way::Parity(0)) => (1, 0),
            (Chunk::Data(wanted), Way::Parity(_)) => (0, inverse(power(wanted.into()))),
            (Chunk::Data(wanted), Way::Without(absent)) => {
                let (wanted, absent) = (power(wanted.into()), power(absent.into()));
                let share = inverse(wanted ^ absent);
                (product(absent, share), share)
            }
        };
        match (chunk, wanted) {
            (Chunk::Parity(_), Chunk::Parity(_)) => 0,
            (Chunk::Parity(0), _) => first,
            (Chunk::Parity(_), _) => second,
            (Chunk::Data(chunk), _) => first ^ product(second, power(chunk.into())),
        }
    }
}
