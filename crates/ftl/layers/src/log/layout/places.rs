//! Positions of consecutive segments on their devices. They are computed for each record that is
//! written, moved or replaced, so divisions are avoided.

/// Positions of segments. Lengths are in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// First sector of the first segment.
    first: u64,
    /// Distance from one segment to the next.
    column: u64,
    /// 2^64 divided by `column`, or 1 less.
    inverse: u64,
}

impl Places {
    /// Returns the positions of segments of `column` sectors from `first` on.
    pub fn new(first: u64, column: u32) -> Self {
        let column = u64::from(column);
        Places { first, column, inverse: u64::MAX / column }
    }

    /// Returns the first sector of the first segment.
    #[inline]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the segment of a sector.
    #[inline]
    pub fn segment_at(&self, sector: u64) -> u32 {
        let sector = sector - self.first;
        // The product falls short by less than 2^64, so the quotient is this value or 1 more.
        let product = u128::from(sector) * u128::from(self.inverse);
        let least = (product >> 64) as u64;
        let rest = sector - least * self.column;
        (least + u64::from(rest >= self.column)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segment_of_a_sector_is_the_quotient() {
        for column in [1, 2, 3, 7, 128, 1000, 8192, 8193, (1 << 27) - 1, 1 << 27, u32::MAX] {
            let places = Places::new(40, column);
            let column = u64::from(column);
            for segment in [0, 1, 2, 5, 1000, (1 << 30) - 1] {
                for sector in [0, 1, column / 2, column - 1].into_iter().filter(|it| *it < column) {
                    let found = places.segment_at(40 + segment * column + sector);
                    assert_eq!(u64::from(found), segment, "sector {sector} of {column}");
                }
            }
        }
    }
}
