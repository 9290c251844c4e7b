//! Requests of a host that make the script run completely, the same for every driver.

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WishKind {
    /// Read; returns the data written by the same list.
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

/// A request of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The kind of the request.
    pub kind: WishKind,
    /// The first sector.
    pub lba: u64,
    /// Number of sectors; 0 for a flush.
    pub sectors: u32,
    /// Whether it is durable when acknowledged.
    pub fua: bool,
}

/// Returns the requests, to be sent one after another: `repeat` rounds with odd and even lengths.
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
