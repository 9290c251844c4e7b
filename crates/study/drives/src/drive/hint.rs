//! Collection hints of a drive: the valid map units of the segments that it collects next.

use hostftl_core::{About, DeviceError, MetaBuf, Verdict};
use hostftl_format::report;

use super::Drive;

impl Drive {
    /// Executes a `Command::Report`. A raw drive reports its segments. Any other drive reports the
    /// valid map units of one victim per pool, pool by pool, until `into` is full.
    ///
    /// # Errors
    /// `Unsupported` when the drive gives no hints, or when segments are requested of a drive that
    /// is not raw.
    pub fn report(&mut self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        if let Some(raw) = self.raw() {
            return raw.report(about, into);
        }
        if about != About::Collectible || !self.spec.hint {
            return Err(DeviceError::Unsupported);
        }
        let (mut count, pools) = (0, self.pools.len() as u64);
        for (index, pool) in self.pools.iter_mut().enumerate() {
            // The present victim is skipped: its data will have moved before the host could
            // overwrite it.
            let Some(victim) = pool.victim_after() else { continue };
            for local in pool.live_pages(victim) {
                let unit = u64::from(local) * pools + index as u64;
                let lba = unit * u64::from(self.spec.map_unit);
                if !report::put_unit(into.pages_mut(), count, lba) {
                    return Ok(filled(count));
                }
                count += 1;
            }
        }
        Ok(filled(count))
    }
}

fn filled(count: usize) -> Verdict {
    Verdict { bytes: (count * report::UNIT_BYTES) as u32, crc: 0 }
}
