//! The work of a drive for each placement id.

use super::Drive;
use crate::spec::DriveSpec;
use crate::work::HandleWork;

/// Sectors of programs by placement id; empty for a drive with only one id, and for a raw drive.
#[derive(Debug)]
pub(super) struct Sent(Vec<u64>);

impl Sent {
    /// Makes the counters of a new drive.
    pub(super) fn new(spec: &DriveSpec) -> Self {
        let has_ids = spec.placements > 1 && spec.zoned.is_none();
        Sent(vec![0; if has_ids { spec.placements.into() } else { 0 }])
    }

    /// Counts a program. Ids beyond the last one count for it, as in the pool.
    pub(super) fn count(&mut self, placement: u8, sectors: u32) {
        if let Some(last) = self.0.len().checked_sub(1) {
            self.0[last.min(placement.into())] += u64::from(sectors);
        }
    }
}

impl Drive {
    /// Returns the work for each placement id; empty for a drive with only one.
    pub fn handles(&self) -> Vec<HandleWork> {
        let unit = u64::from(self.spec.map_unit);
        let pages = |id: usize| self.pools.iter().map(move |it| it.programmed_by_placement()[id]);
        let work = |(id, &sent)| HandleWork { sent, programmed: pages(id).sum::<u64>() * unit };
        self.sent.0.iter().enumerate().map(work).collect()
    }
}
