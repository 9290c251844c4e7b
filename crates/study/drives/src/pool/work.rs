//! Flash operations of a pool, and their counters.

/// A flash operation of a pool. Pages are numbered over all segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashOp {
    /// Programs a page of the host.
    Program {
        /// Programmed page.
        page: u32,
    },
    /// Moves a page for garbage collection or wear levelling: a read and a program.
    Copy {
        /// Page that is read.
        from: u32,
        /// Page that is programmed.
        to: u32,
    },
    /// Erases a segment.
    Erase {
        /// Erased segment.
        segment: u32,
    },
}

/// Receiver of a pool's flash operations, in order.
pub trait Sink {
    /// Receives one operation.
    fn take(&mut self, op: FlashOp);

    /// Receives the copies of the pages `from + bit`, for each bit set in `live`, to consecutive
    /// pages from `to` on.
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

/// Returns the indices of the set bits, lowest first.
#[inline]
pub(crate) fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit)
    })
}

/// Work of a pool since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolWork {
    /// Pages programmed for the host.
    pub host: u64,
    /// Pages copied by garbage collection.
    pub copies: u64,
    /// Pages copied by wear levelling.
    pub levelled: u64,
    /// Segments erased.
    pub erases: u64,
}

impl PoolWork {
    /// Returns the work done since `before`.
    #[must_use]
    pub fn since(&self, before: &PoolWork) -> PoolWork {
        PoolWork {
            host: self.host - before.host,
            copies: self.copies - before.copies,
            levelled: self.levelled - before.levelled,
            erases: self.erases - before.erases,
        }
    }

    /// Returns the pages programmed.
    pub fn programs(&self) -> u64 {
        self.host + self.copies + self.levelled
    }

    /// Returns the write amplification: pages programmed for each page written by the host.
    pub fn waf(&self) -> f64 {
        self.programs() as f64 / self.host as f64
    }
}
