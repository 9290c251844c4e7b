//! Reports the damage found in a stripe of the victim before the stripe ends.

use hostftl_core::Event;

use crate::log::gc::lane::{Checked, Lane, Live};
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Cx, tell_corrupt};

/// Output slots without which a report waits.
const TELLS: usize = 12;

impl Lane {
    /// Reports one fault of the stripe. Returns false if none is left.
    pub(crate) fn tell_row(
        &mut self,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        if !self.chunks.any_flawed() {
            return false;
        }
        if cx.room() < TELLS {
            cx.wake();
            return true;
        }
        let gone = |live: &Live| live.state == Checked::Gone;
        if let Some(at) = self.live.iter().position(gone) {
            let Live { block, place, .. } = self.live[at];
            self.live[at].state = Checked::Told;
            // A block that was overwritten meanwhile is not lost.
            if mapping.pages.pair(block).is_none_or(|(now, _)| now == place) {
                media.gauges.beyond_repair += 1;
                tell_corrupt(block, 1, cx);
            }
            return true;
        }
        let chunk = self.chunks.take_flawed().expect("a fault is pending");
        let told = |live: &Live| live.chunk == chunk && live.state == Checked::Told;
        // A chunk with lost records was not repaired.
        if let Some((from, sectors)) = self.live_range(chunk)
            && !self.live.iter().any(told)
        {
            let at = self.at;
            let stripe = media.devices.stripe(at.segment);
            let device = stripe.device(at.segment, at.slot, chunk.into());
            let lba = self.layout.lba(at) + u64::from(from);
            media.devices.note_fault(device, lba, cx);
            cx.tell(Event::Mended { device, lba, sectors });
        }
        true
    }
}
