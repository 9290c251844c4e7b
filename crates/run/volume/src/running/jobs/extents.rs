//! Mapped extents of a volume, for clients' queries.

use hostftl_core::{Layer, MAX_TOUCH, SECTOR};

use crate::running::front::job::{Extent, MAX_EXTENTS};

/// Returns the extents from sector `lba` on: up to `sectors` sectors, but no more than a step may
/// touch.
pub(super) fn extents(layer: &dyn Layer, lba: u64, sectors: u64) -> Vec<Extent> {
    let mut all: Vec<Extent> = Vec::new();
    let mut at = 0;
    while at < sectors.min(MAX_TOUCH as u64) && all.len() < MAX_EXTENTS {
        let (mapped, run) = layer.mapped(lba + at, sectors - at);
        assert!(run > 0 && run <= sectors - at, "the run is within the request");
        at += run;
        let bytes = run * SECTOR as u64;
        match all.last_mut() {
            Some(last) if last.mapped == mapped => last.bytes += bytes,
            _ => all.push(Extent { bytes, mapped }),
        }
    }
    all
}
