//! Reports the damage found in a stripe of the victim before the stripe ends.

use hostftl_core::Event;

use crate::log::gc::lane::{Checked, Lane, ValidRecord};
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Cx, report_corrupt};

/// Output slots without which a report waits.
const REPORT_OUTPUTS: usize = 12;

impl Lane {
    /// Reports one fault of the stripe. Returns false if none is left.
    pub(crate) fn report_fault(
        &mut self,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        if !self.chunks.any_flawed() {
            return false;
        }
        if cx.outputs_left() < REPORT_OUTPUTS {
            cx.wake();
            return true;
        }
        let is_lost = |valid: &ValidRecord| valid.state == Checked::Lost;
        // Lost records first: whether a chunk counts as repaired depends on them.
        if let Some(at) = self.valid.iter().position(is_lost) {
            let ValidRecord { block, place, .. } = self.valid[at];
            self.valid[at].state = Checked::Reported;
            // A block that was overwritten meanwhile is not lost.
            if mapping.pages.pair(block).is_none_or(|(now, _)| now == place) {
                media.gauges.beyond_repair += 1;
                report_corrupt(block, 1, cx);
            }
            return true;
        }
        let chunk = self.chunks.take_flawed().expect("a fault is pending");
        let is_reported =
            |valid: &ValidRecord| valid.chunk == chunk && valid.state == Checked::Reported;
        // A chunk with lost records was not repaired.
        if let Some((from, sectors)) = self.valid_range(chunk)
            && !self.valid.iter().any(is_reported)
        {
            let at = self.at;
            let placement = media.devices.placement(at.segment);
            let device = placement.device(at.segment, at.slot, chunk.into());
            let lba = self.layout.lba(at) + u64::from(from);
            media.devices.note_fault(device, lba, cx);
            cx.report(Event::Repaired { device, lba, sectors });
        }
        true
    }
}
