//! Memory that a driver lends to jobs, so that it is not allocated for each.

use alloc::vec::Vec;
use core::fmt;

use lz4_flex::block::{self, CompressTable};

/// Reusable memory for jobs.
#[derive(Default)]
pub struct Tools {
    /// Table of the compressor. Creating it takes as long as compressing a block.
    table: CompressTable,
    /// Output buffer of the compressor, which requires space for the worst case.
    whole: Vec<u8>,
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tools with {} bytes", self.whole.len())
    }
}

impl Tools {
    /// Compresses `from` into `into` as an LZ4 block. Returns the length if it fits.
    pub(crate) fn lz4(&mut self, from: &[u8], into: &mut [u8]) -> Option<usize> {
        let room = block::get_maximum_output_size(from.len());
        if self.whole.len() < room {
            self.whole.resize(room, 0);
        }
        let packed = block::compress_into_with_table(from, &mut self.whole, &mut self.table);
        let packed = packed.expect("the buffer holds the worst case");
        let into = into.get_mut(..packed)?;
        into.copy_from_slice(&self.whole[..packed]);
        Some(packed)
    }
}
