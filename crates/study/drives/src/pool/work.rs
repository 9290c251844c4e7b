//! What a pool tells the flash to do, and how much of it there was.

/// One thing that the flash does. Pages are numbered through all segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashOp {
    /// A page of the host is programmed.
    Program {
        /// Where.
        page: u32,
    },
    /// Collection or wear levelling moves a page: a read and a program.
    Copy {
        /// What is read.
        from: u32,
        /// What is programmed.
        to: u32,
    },
    /// A segment is erased.
    Erase {
        /// Which.
        segment: u32,
    },
}

/// Is told what the flash does for a pool, in order.
pub trait Sink {
    /// One thing.
    fn take(&mut self, op: FlashOp);

    /// Copies of the pages `from + bit`, for each bit that is set in `live`, to as many pages that
    /// follow each other, beginning with `to`.
    #[inline]
    fn copies(&mut self, from: u32, live: u64, to: u32) {
        for (bit, to) in bits(live).zip(to..) {
            self.take(FlashOp::Copy { from: from + bit, to });
        }
    }
}

impl<F: FnMut(FlashOp)> Sink for F {
    #[inline]
    fn take(&mut self, op: FlashOp) {
        self(op);
    }
}

/// The numbers of the bits that are set, the lowest first.
#[inline]
pub(crate) fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit)
    })
}

/// What a pool did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolWork {
    /// Pages programmed for the host.
    pub host: u64,
    /// Pages that collection copied.
    pub copies: u64,
    /// Pages that wear levelling copied.
    pub levelled: u64,
    /// Segments erased.
    pub erases: u64,
}

impl PoolWork {
    /// What was done since `before`.
    #[must_use]
    pub fn since(&self, before: &PoolWork) -> PoolWork {
        PoolWork {
            host: self.host - before.host,
            copies: self.copies - before.copies,
            levelled: self.levelled - before.levelled,
            erases: self.erases - before.erases,
        }
    }

    /// Pages programmed.
    pub fn programs(&self) -> u64 {
        self.host + self.copies + self.levelled
    }

    /// Pages programmed for each page that the host wrote.
    pub fn waf(&self) -> f64 {
        self.programs() as f64 / self.host as f64
    }
}
