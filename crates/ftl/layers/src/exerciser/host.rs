//! Requests of a host that make the script run completely, the same for every driver.

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExerciserOp {
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
pub struct ExerciserRequest {
    /// The kind of the request.
    pub kind: ExerciserOp,
    /// The first sector.
    pub lba: u64,
    /// Number of sectors; 0 for a flush.
    pub sectors: u32,
    /// Whether it is durable when acknowledged.
    pub fua: bool,
}

/// Returns the requests, to be sent one after another: `repeat` rounds with odd and even lengths.
pub fn requests(repeat: u64) -> impl Iterator<Item = ExerciserRequest> {
    let wish = |kind, lba, sectors, fua| ExerciserRequest { kind, lba, sectors, fua };
    (0..repeat).flat_map(move |round| {
        let sectors = [1, 2, 3, 8, 15, 16][(round % 6) as usize];
        let lba = round * 5 % 32;
        [
            wish(ExerciserOp::Write, lba, sectors, round % 2 == 1),
            wish(ExerciserOp::Read, lba, sectors, false),
            wish(ExerciserOp::Flush, 0, 0, false),
            wish(ExerciserOp::Trim, lba, sectors, round % 3 == 1),
            wish(ExerciserOp::Read, lba, sectors, false),
            wish(ExerciserOp::Write, lba, sectors, false),
            wish(ExerciserOp::Zeroes, lba, sectors, round % 3 == 2),
            wish(ExerciserOp::Read, lba, sectors, false),
        ]
    })
}
