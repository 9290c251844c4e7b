//! Ways to rebuild a chunk from others, each with its factors.

use hostftl_core::field::{inverse, power, product};

use super::Chunk;

/// Maximum number of ways.
pub(super) const WAYS: u8 = 2 + 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A data chunk from this parity and all other data, or this parity from all data.
    Parity(u8),
    /// From both parities and all data except this chunk.
    Without(u8),
}

impl Way {
    /// Returns way `number`, in the order in which they are tried. Parity has only one way.
    pub(super) fn number(number: u8, wanted: Chunk) -> Self {
        match (wanted, number.checked_sub(2)) {
            (Chunk::Parity(which), _) => Way::Parity(which),
            (_, None) => Way::Parity(number),
            (_, Some(chunk)) => Way::Without(chunk),
        }
    }

    /// Returns the data chunk that is not needed.
    pub(super) fn without(self) -> Option<Chunk> {
        match self {
            Way::Parity(_) => None,
            Way::Without(chunk) => Some(Chunk::Data(chunk)),
        }
    }

    /// Returns the needed parities, as a bit mask.
    pub(super) fn needs(self, wanted: Chunk) -> u32 {
        match (wanted, self) {
            (Chunk::Parity(_), _) => 0,
            (_, Way::Parity(which)) => 1 << which,
            (_, Way::Without(_)) => 0b11,
        }
    }

    /// Returns the factor of a chunk in the sum that yields the wanted one.
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
