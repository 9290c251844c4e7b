//! What a drive tells of itself: which map units live in what it collects next.

use hostftl_core::{About, DeviceError, MetaBuf, Verdict};
use hostftl_format::report;

use super::Drive;

impl Drive {
    /// Answers a `Command::Report`: a raw device tells of its segments. Of each pool the victim
    /// after the one being collected is told, pool by pool, until `into` is full.
    ///
    /// # Errors
    /// `Unsupported` when the drive gives no hint, or is asked for segments.
    pub fn report(&mut self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        if let Some(raw) = self.raw() {
            return raw.report(about, into);
        }
        if about != About::Collectible || !self.spec.hint {
            return Err(DeviceError::Unsupported);
        }
        let (mut count, pools) = (0, self.pools.len() as u64);
        for (index, pool) in self.pools.iter_mut().enumerate() {
            // What is being collected has moved by the time that the host would write over it.
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
