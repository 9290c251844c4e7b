//! The top floor of the array: background work during host requests.
//!
//! [`Collection`] moves valid data to gain space and to restore redundancy; [`Scrub`] verifies all
//! data. Both use the floors below, and they are independent of each other.

use crate::log::gc::Collection;
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::Cx;
use crate::log::output::Output;
use crate::log::scrub::Scrub;

#[derive(Debug)]
pub(super) struct Background {
    /// Garbage collection and rebuild.
    pub collection: Collection,
    /// The scrub, if one is in progress.
    pub scrub: Scrub,
}

impl Background {
    /// Performs the next step of a scrub. It begins no stripe while lost redundancy is being
    /// restored.
    pub(super) fn pump_scrub(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        let may = !self.collection.protects(&media.devices);
        self.scrub.pump(may, media, output, mapping, cx)
    }
}
