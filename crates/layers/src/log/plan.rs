//! What a log volume needs, and what it gives.

use hostftl_core::{Ack, Limits, SECTORS_PER_BLOCK};

use crate::config::Plan;
use crate::log::layout::{Layout, MAX_TRANSFER};
use crate::log::map::size::FRAME_BYTES;
use crate::log::segments::Segments;
use crate::log::zoned::write_pointers::Pointers;
use crate::policy::GcPolicy;

impl Layout {
    /// What the layer needs and gives, with so many buffers of so many sectors.
    pub fn plan(&self, gc: GcPolicy, (buffers, buffer_sectors): (u32, u32)) -> Plan {
        let limits = Limits {
            exported: self.blocks * u64::from(SECTORS_PER_BLOCK),
            max_transfer: MAX_TRANSFER,
            align: SECTORS_PER_BLOCK,
            ack: Ack::Buffer,
        };
        // The pool; for each page its frame, its image and two marks.
        let tables = u64::from(self.pages) * (4 + 12) + u64::from(self.pages).div_ceil(4);
        let map_bytes = u64::from(self.frames) * FRAME_BYTES + tables;
        let meta_bytes = Segments::memory(self, gc) + Pointers::memory(self);
        Plan { limits, buffers, buffer_sectors, map_bytes, meta_bytes }
    }
}
