//! What a host must ask so that the script runs through: the same list for every driver.

/// What kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WishKind {
    /// Read; what was written by the same list comes back.
    Read,
    /// Write.
    Write,
    /// Trim.
    Trim,
    /// Write zeroes.
    Zeroes,
    /// Flush.
    Flush,
}

/// One request of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// What to do.
    pub kind: WishKind,
    /// The first sector.
    pub lba: u64,
    /// How many; 0 for a flush.
    pub sectors: u32,
    /// Durable when answered.
    pub fua: bool,
}

/// The requests, to be sent one after another: `repeat` rounds with odd and even lengths.
pub fn wishes(repeat: u64) -> impl Iterator<Item = Wish> {
    let wish = |kind, lba, sectors, fua| Wish { kind, lba, sectors, fua };
    (0..repeat).flat_map(move |round| {
        let sectors = [1, 2, 3, 8, 15, 16][(round % 6) as usize];
        let lba = round * 5 % 32;
        [
            wish(WishKind::Write, lba, sectors, round % 2 == 1),
            wish(WishKind::Read, lba, sectors, false),
            wish(WishKind::Flush, 0, 0, false),
            wish(WishKind::Trim, lba, sectors, round % 3 == 1),
            wish(WishKind::Read, lba, sectors, false),
            wish(WishKind::Write, lba, sectors, false),
            wish(WishKind::Zeroes, lba, sectors, round % 3 == 2),
            wish(WishKind::Read, lba, sectors, false),
        ]
    })
}
